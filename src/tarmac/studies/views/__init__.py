"""Views of a study for people and other programs."""
