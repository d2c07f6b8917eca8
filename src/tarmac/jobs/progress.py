"""What a run tells of its tasks while it goes on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.jobs.executors import Began, Cause, Outcome, Queued, Requeued, Waiting
    from tarmac.jobs.machine import Grant
    from tarmac.jobs.plan import Task


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a task ended.

    Attributes:
        task: The task that has ended.
        outcome: Outcome of the task: ``succeeded``, ``failed``, ``skipped`` or ``interrupted``.
        reason: In words, where it did not succeed.
        exit_code: Exit code of the last attempt; negative for a signal, None where it was not
            started.
        seconds: Duration of the last attempt in seconds.
        attempts: Number of attempts that were made.
        problems: What went wrong with its outputs.
        cause: Why it did not succeed; None where it did, and where it was skipped.
        host: Where its last attempt ran; empty for this machine.
        notes: What was found beside its work, a line each: memory of a GPU that others held.
    """

    task: Task
    outcome: Outcome
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    attempts: int = 0
    problems: Sequence[str] = ()
    cause: Cause | None = None
    host: str = ""
    notes: Sequence[str] = ()


class Reporter(Protocol):
    """Receives a run's progress."""

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        """An attempt of a task begins."""

    def told(self, event: Queued | Waiting | Began | Requeued) -> None:
        """An engine that queues attempts has said something of one; never called for this machine.

        One that has begun is told of by `started` too.
        """

    def waited(self) -> None:
        """Time has passed, half a second at most."""

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        """An attempt failed, and another one follows."""

    def ended(self, ended: Ended) -> None:
        """A task is at its end."""


class Silent:
    """Passes no progress on."""

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        """Say nothing."""

    def told(self, event: Queued | Waiting | Began | Requeued) -> None:
        """Say nothing."""

    def waited(self) -> None:
        """Say nothing."""

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        """Say nothing."""

    def ended(self, ended: Ended) -> None:
        """Say nothing."""
