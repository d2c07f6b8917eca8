"""Task factories: the values of each task, and how they are put into its command."""
