"""The search methods and pruning rules."""
