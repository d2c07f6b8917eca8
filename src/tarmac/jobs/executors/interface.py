"""What starts tasks: the interface that each place where tasks run implements.

The scheduler (`tarmac.jobs.scheduler`) knows what may run next and what follows a failure. An
executor knows where there is room, starts an attempt there, watches its limits, keeps its outputs
and says how it ended. A cluster's executor may accept every attempt at once and let the cluster
queue them; the local one accepts what fits.

Every executor passes the checks of `tarmac.testing.executors`, which the author of a new one can
import.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tarmac.jobs.machine import Grant
    from tarmac.jobs.model import Secret
    from tarmac.jobs.plan import Task

__all__ = [
    "Attempt",
    "Busy",
    "Executor",
    "ExecutorKind",
    "Finished",
    "Outcome",
    "Site",
    "is_retried",
]

Outcome = Literal["succeeded", "failed", "skipped", "interrupted"]


class Busy(Enum):
    """Why an attempt cannot begin now.

    Attributes:
        FULL: CPUs or memory are short. Nothing may overtake, or a large task might wait for ever.
        NO_GPU: Only GPUs are short; tasks without any may go on.
    """

    FULL = "full"
    NO_GPU = "no gpu"


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One try of a task.

    Attributes:
        task: The task that is tried.
        number: From 1.
        directory: Gets ``stdout``, ``stderr`` and ``work/``, the task's working directory. Later
            attempts add to what earlier ones have printed.
    """

    task: Task
    number: int
    directory: Path


@dataclasses.dataclass(frozen=True)
class Finished:
    """How an attempt ended.

    Attributes:
        attempt: The attempt that has ended.
        outcome: ``interrupted`` only after `Executor.stop`.
        reason: In words, where it did not succeed.
        exit_code: None where it was not started, negative for a signal.
        seconds: It ran, without its inputs and outputs.
        problems: What went wrong with its outputs, a line each.
    """

    attempt: Attempt
    outcome: Outcome
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    problems: Sequence[str] = ()


class Executor(Protocol):
    """Where the tasks of one run are started."""

    def start(self, attempt: Attempt) -> Grant | Busy:
        """Begin an attempt, or say why there is no room now.

        Returns at once: bringing inputs and the like goes on behind it. What goes wrong from here
        on is the attempt's `Finished`, never an exception.
        """
        ...

    def wait(self, patience_s: float) -> Sequence[Finished]:
        """Return attempts that have ended, each once.

        Args:
            patience_s: How long to wait for the first, in seconds.
        """
        ...

    def stop(self) -> None:
        """End all attempts: SIGTERM, a grace, SIGKILL. They finish as ``interrupted``."""
        ...

    def close(self) -> None:
        """Let go of everything; no attempt is at work any more."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Site:
    """What a run gives the executor of its tasks.

    Attributes:
        tasks: All that it may start.
        base: What relative paths of inputs and outputs start from: the job file's directory.
        shared: The directory where tasks keep what is for other tasks of the run, ``run:PATH``.
        secrets: What names of secrets stand for here.
        fake_gpus: GPUs to pretend.
    """

    tasks: Sequence[Task]
    base: Path
    shared: Path
    secrets: Mapping[str, Secret] = dataclasses.field(default_factory=dict)
    fake_gpus: int = 0


@dataclasses.dataclass(frozen=True)
class ExecutorKind:
    """A row of the table of executors.

    A package provides one by an entry point of the group ``tarmac.executors``, whose name is what
    ``--on`` takes and whose value is such a row.

    Attributes:
        name: As ``--on`` takes it.
        title: Where tasks run, for people: ``this machine``.
        refuse: Raises a RequestError where a task can never run there, before a run is made. Gets
            the tasks and how many GPUs to pretend.
        open: Makes the executor of a run.
    """

    name: str
    title: str
    refuse: Callable[[Sequence[Task], int], None]
    open: Callable[[Site], Executor]


def is_retried(attempt: Attempt, outcome: Outcome, exit_code: int | None) -> bool:
    """Whether another attempt follows one that ended so; its outputs are not kept then."""
    retries = attempt.task.retries
    if outcome != "failed" or attempt.number > retries.count:
        return False
    return not retries.exit_codes or exit_code in retries.exit_codes
