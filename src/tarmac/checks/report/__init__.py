"""The report of a check: verdicts, requirements, and the forms in which it is rendered."""
