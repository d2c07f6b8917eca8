"""Process groups that train together: launch, rendezvous and watchdog."""
