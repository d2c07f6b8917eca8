"""The evaluators that train the candidates of a study."""
