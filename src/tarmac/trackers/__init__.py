"""Trackers that people already have, told of trainings and searches."""
