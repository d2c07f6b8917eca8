"""Processes that Tarmac starts: with all that they start, watched, and ended as a whole."""
