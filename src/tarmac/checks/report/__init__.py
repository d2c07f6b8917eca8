"""What a check says: verdicts, requirements, pages."""
