"""Conformance checks for those who extend Tarmac: what a plug-in's own tests can call."""
