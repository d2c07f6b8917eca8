"""The interface of trackers, and the run that a tracker receives."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """A run with the data that trackers need.

    Attributes:
        id: Unique id. A tracker that knows the id continues that run.
        name: Name of the run, for people.
        directory: The run's directory; local files of the tracker go below it.
        configuration: Effective settings of the run, which trackers store without nesting.
        tags: Values by which the run can be searched, by name.
        is_ordered: Whether steps arrive in order. Default True. Networks that a search trains at
            the same time end in any order.
    """

    id: str
    name: str
    directory: Path
    configuration: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_ordered: bool = True


class Tracker(Protocol):
    """One run at a tracker; exceptions of its methods must not fail the run itself.

    Attributes:
        place: URL or directory where people see the run.
    """

    place: str

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of a step.

        Args:
            step: Number of the step: an epoch, or a trial.
            metrics: Values of the step by name.
        """
        ...

    def end(self, status: str, summary: Mapping[str, float]) -> None:
        """Send the final status; nothing can be logged after it.

        Args:
            status: ``completed``, ``interrupted`` or ``failed``.
            summary: The final values by name.
        """
        ...


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a configuration without nesting: ``{"optimizer.rho": 0.9}``."""
    entries: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            entries |= flat(value, f"{name}.")
        else:
            entries[name] = value
    return entries
