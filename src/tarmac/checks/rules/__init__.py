"""From evidence to findings: the catalogue of failures and its rules."""
