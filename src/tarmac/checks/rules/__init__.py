"""The catalogue of failures, and the rules that turn evidence into findings."""
