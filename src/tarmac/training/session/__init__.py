"""One training in its run directory: epochs, checkpoints, the record, reporters."""
