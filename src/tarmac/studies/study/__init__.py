"""A study's directory: its record, its trials, and the leases of its processes."""
