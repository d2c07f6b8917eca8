"""A study's directory: its record, its trials, and who works on it."""
