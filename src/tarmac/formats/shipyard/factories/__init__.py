"""Task factories: the values of each task, and the command that they fill."""
