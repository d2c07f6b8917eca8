"""What trains the candidates of a study."""
