"""Mapping of a Batch Shipyard configuration to Tarmac jobs."""
