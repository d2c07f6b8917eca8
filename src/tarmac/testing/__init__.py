"""Conformance suites for those who extend Tarmac: what each interface promises, as functions."""
