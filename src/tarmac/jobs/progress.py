"""Progress reports of a run's tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tarmac.executors import Began, Cause, Outcome, Queued, Requeued, Waiting
    from tarmac.tasks.machine import Grant
    from tarmac.tasks.plan import Task


@dataclasses.dataclass(frozen=True)
class Ended:
    """The end of a task.

    Attributes:
        task: The task that has ended.
        outcome: Outcome of the task: ``succeeded``, ``failed``, ``skipped`` or ``interrupted``.
        reason: Why the task did not succeed; empty after success.
        exit_code: Exit code of the last attempt; negative for a signal, None where it was not
            started.
        seconds: Duration of the last attempt in seconds.
        attempts: Number of attempts that were made.
        problems: Problems with the task's outputs, a line each.
        cause: Cause of a failure; None after success, and for a skipped task.
        host: Host of the last attempt; empty for this machine.
        notes: Observations beside the task's work, a line each, such as GPU memory that others
            held.
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
    """A receiver of a run's progress."""

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        """Report that an attempt of a task begins."""

    def told(self, event: Queued | Waiting | Began | Requeued) -> None:
        """Report an event of an engine that queues attempts; never called for this machine.

        For an attempt that begins, `started` is called too.
        """

    def waited(self) -> None:
        """Report that time has passed, half a second at most."""

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        """Report that an attempt failed and will be retried."""

    def ended(self, ended: Ended) -> None:
        """Report the end of a task."""


class Silent:
    """A reporter that does nothing."""

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        """Do nothing."""

    def told(self, event: Queued | Waiting | Began | Requeued) -> None:
        """Do nothing."""

    def waited(self) -> None:
        """Do nothing."""

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        """Do nothing."""

    def ended(self, ended: Ended) -> None:
        """Do nothing."""
