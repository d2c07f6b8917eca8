"""What a check says: verdicts, requirements, and the pages that show them."""
