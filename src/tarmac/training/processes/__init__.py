"""Several processes that train together: launching, meeting, watching one another."""
