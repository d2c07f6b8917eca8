"""Output of the commands, as text and as JSON."""
