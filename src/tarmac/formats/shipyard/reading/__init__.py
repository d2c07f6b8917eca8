"""Reading and checking of Batch Shipyard's files as one configuration."""
