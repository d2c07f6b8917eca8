"""What ``--on`` offers, without loading the room of jobs for every ``--help``."""

from __future__ import annotations

from importlib.metadata import entry_points

__all__ = ["executor_choices"]


def executor_choices() -> tuple[str, ...]:
    """Return the names of executors: those of `tarmac.jobs.executor_names`."""
    provided = {point.name for point in entry_points(group="tarmac.executors")}
    return ("local", *sorted(provided - {"local"}))
