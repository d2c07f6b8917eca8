"""A study as people and other programs see it."""
