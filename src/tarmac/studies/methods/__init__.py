"""What is searched, and by which method."""
