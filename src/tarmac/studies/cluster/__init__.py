"""A study's workers on a cluster: a job of equal tasks, followed from the submitting machine."""
