"""What starts tasks: the interface that each place where tasks run implements.

The scheduler (`tarmac.jobs.scheduler`) knows what may run next and what follows a failure. An
executor knows where there is room, starts an attempt there, watches its limits, keeps its outputs
and says how it ended. A cluster's executor may accept every attempt at once and let the cluster
queue them; the local one accepts what fits.

Every executor passes ``tests/jobs/test_executors.py``.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tarmac.jobs.plan import Task

__all__ = ["Attempt", "Busy", "Executor", "Finished", "Grant", "Outcome", "is_retried"]

Outcome = Literal["succeeded", "failed", "skipped", "interrupted"]


@dataclasses.dataclass(frozen=True)
class Grant:
    """What a task has while it runs.

    Attributes:
        cpus: Cores.
        memory: Bytes; 0 where there is no limit.
        gpus: UUIDs.
        share: Of each of them.
    """

    cpus: float
    memory: int
    gpus: tuple[str, ...]
    share: float


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
        task: Which.
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
        attempt: Which.
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
    """A place where tasks run.

    Attributes:
        name: As ``--on`` takes it.
    """

    name: str

    def refuse(self, tasks: Sequence[Task]) -> None:
        """Raise a RequestError for a task that can never run here."""
        ...

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


def is_retried(attempt: Attempt, outcome: Outcome, exit_code: int | None) -> bool:
    """Whether another attempt follows one that ended so; its outputs are not kept then."""
    retries = attempt.task.retries
    if outcome != "failed" or attempt.number > retries.count:
        return False
    return not retries.exit_codes or exit_code in retries.exit_codes
