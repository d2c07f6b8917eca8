"""Report pages: one file each, of a training, a search, a job, a check, or several."""
