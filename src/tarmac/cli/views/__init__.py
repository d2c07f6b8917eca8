"""How what a command does is shown."""
