"""Environments that are built once and kept by their content: virtual environments, containers."""
