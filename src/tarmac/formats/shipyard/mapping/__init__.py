"""What a configuration of Batch Shipyard's means for a job of ours."""
