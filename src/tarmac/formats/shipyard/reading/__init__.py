"""Batch Shipyard's files as one configuration, with its factories expanded."""
