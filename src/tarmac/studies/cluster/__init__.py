"""A study's workers on a cluster: as a job of equal tasks, followed from where it was asked for."""
