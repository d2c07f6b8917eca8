"""The interface for observers of a pipeline's run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tarmac.hkube.hosting import Ending, Work


class Observer(Protocol):
    """An observer of a run; an exception in it ends the run."""

    def started(
        self, work: Work, attempt: int, directory: Path, gpus: Sequence[str], host: str = ""
    ) -> None:
        """Handle an attempt's start; `directory` has its logs, `host` is set on a cluster."""

    def progress(self, work: Work, value: float | None, details: str) -> None:
        """Handle a progress report: a fraction from 0 to 1, or None without a number."""

    def retrying(self, work: Work, reason: str, delay_s: float) -> None:
        """Handle a failed or disturbed attempt that another attempt follows."""

    def waiting(self, work: Work, reason: str) -> None:
        """Handle the reason why a task waits."""

    def ended(self, ending: Ending) -> None:
        """Handle the ending of a task."""

    def repeated(self, name: str) -> None:
        """Handle a task that ended in an earlier session and is not run again."""

    def tried(self, name: str, number: int, params: Mapping[str, Any], value: float | None) -> None:
        """Handle the end of a trial of a tuner node; `number` is from 1."""

    def waited(self) -> None:
        """Handle a tick, some ten times a second."""


class Silent:
    """An observer that ignores all events."""

    def started(
        self, work: Work, attempt: int, directory: Path, gpus: Sequence[str], host: str = ""
    ) -> None:
        """Ignore the event."""

    def progress(self, work: Work, value: float | None, details: str) -> None:
        """Ignore the event."""

    def retrying(self, work: Work, reason: str, delay_s: float) -> None:
        """Ignore the event."""

    def waiting(self, work: Work, reason: str) -> None:
        """Ignore the event."""

    def ended(self, ending: Ending) -> None:
        """Ignore the event."""

    def repeated(self, name: str) -> None:
        """Ignore the event."""

    def tried(self, name: str, number: int, params: Mapping[str, Any], value: float | None) -> None:
        """Ignore the event."""

    def waited(self) -> None:
        """Ignore the event."""
