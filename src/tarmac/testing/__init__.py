"""Conformance suites for extensions of Tarmac: one check function per promise of an interface."""
