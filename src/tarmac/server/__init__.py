"""The pages live: on this machine, for this user alone."""
