"""Who is told how a pipeline's run goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from tarmac.hkube.hosting import Ending, Work


class Observer(Protocol):
    """Receives a run's progress; what it raises ends the run."""

    def started(
        self, work: Work, attempt: int, directory: Path, gpus: Sequence[str], host: str = ""
    ) -> None:
        """An attempt begins, in a directory with ``stdout`` and ``stderr``; on a cluster, where."""

    def progress(self, work: Work, value: float | None, details: str) -> None:
        """An algorithm says how far it is: 0 to 1, None where it says no number."""

    def retrying(self, work: Work, reason: str, delay_s: float) -> None:
        """An attempt failed, and another one follows."""

    def waiting(self, work: Work, reason: str) -> None:
        """A task cannot begin now, and why."""

    def ended(self, ending: Ending) -> None:
        """A task is at its end."""

    def repeated(self, name: str) -> None:
        """A task had its end in an earlier session of the run, and is not done again."""

    def tried(self, name: str, number: int, params: Mapping[str, Any], value: float | None) -> None:
        """A trial of a node that tunes has ended; its number is from 1."""

    def waited(self) -> None:
        """Time has passed, a tenth of a second or so."""


class Silent:
    """Passes no progress on."""

    def started(
        self, work: Work, attempt: int, directory: Path, gpus: Sequence[str], host: str = ""
    ) -> None:
        """Say nothing."""

    def progress(self, work: Work, value: float | None, details: str) -> None:
        """Say nothing."""

    def retrying(self, work: Work, reason: str, delay_s: float) -> None:
        """Say nothing."""

    def waiting(self, work: Work, reason: str) -> None:
        """Say nothing."""

    def ended(self, ending: Ending) -> None:
        """Say nothing."""

    def repeated(self, name: str) -> None:
        """Say nothing."""

    def tried(self, name: str, number: int, params: Mapping[str, Any], value: float | None) -> None:
        """Say nothing."""

    def waited(self) -> None:
        """Say nothing."""
