"""Search: find good hyperparameters, many networks at once, without losing a trial."""
