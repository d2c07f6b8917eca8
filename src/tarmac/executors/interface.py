"""The interface of executors: each place where tasks run implements it.

The scheduler (`tarmac.jobs.scheduler`) decides which tasks may run next and when a retry follows.
An executor knows the free resources, starts attempts, enforces their limits, keeps their outputs
and reports how they ended. A cluster's executor queues attempts. They outlive the process that
started them, and a later process attaches to them. The local executor accepts the attempts that
fit; they end with its process.

Version 2 of the contract: attempts in bulk, events, attach and detach.

Every executor passes the checks of `tarmac.testing.executors`. Authors of new executors can import
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from tarmac.executors.attempt import Attempt, Outcome
from tarmac.executors.events import DISTURBANCES, Began, Cause, Event, Queued
from tarmac.executors.runners import RunnerEngine
from tarmac.tasks.model import Secret
from tarmac.tasks.plan import Task

__all__ = [
    "Attempt",
    "Busy",
    "Executor",
    "ExecutorKind",
    "Outcome",
    "Site",
    "is_retried",
]


class Busy(Enum):
    """Why an attempt cannot start now.

    Attributes:
        FULL: CPUs or memory are short. No other task may overtake, or a large task could starve.
        NO_GPU: Only GPUs are short; tasks that need no GPU may start.
    """

    FULL = "full"
    NO_GPU = "no gpu"


class Executor(Protocol):
    """The interface that starts the tasks of one run."""

    @property
    def queues(self) -> bool:
        """Whether attempts wait in an engine's queue and outlive this executor.

        The executor then limits how many attempts run at once; otherwise the scheduler does.
        `ExecutorKind.outlives` says whether the attempts outlive the process too.
        """
        ...

    def start(self, attempts: Sequence[Attempt]) -> Sequence[Began | Queued | Busy]:
        """Start or queue attempts; report those that do not fit now.

        Returns at once: staging continues in the background. A later failure becomes the attempt's
        `Finished`, never an exception.

        Args:
            attempts: Attempts to start, in order of preference.

        Returns:
            An answer for each attempt, in the same order. Attempts answered with `Busy` were not
            taken and may be submitted again.
        """
        ...

    def wait(self, patience_s: float) -> Sequence[Event]:
        """Return the events since the last call, with each attempt's end exactly once.

        The caller has recorded the returned events by the time that it calls `wait` again. Until
        then, an executor that queues keeps the data that `attach` needs to report them once more.

        `Queued` follows where the answer of `start` had no place yet. `Waiting`, `Began` and
        `Requeued` follow as the executor observes them.

        Args:
            patience_s: Seconds to wait for the first event.
        """
        ...

    def end(self, attempt: Attempt, reason: str, grace_s: float) -> None:
        """End one attempt: SIGTERM, a grace period, SIGKILL. It finishes as ``interrupted``.

        An attempt that has ended stays as it is.

        Args:
            attempt: Attempt that `start` has taken.
            reason: Reason for people, which becomes part of its `Finished`.
            grace_s: Seconds from SIGTERM to SIGKILL. An executor that queues may use its engine's
                fixed grace period instead.
        """
        ...

    def stop(self) -> None:
        """End all attempts, as `end` does. They finish as ``interrupted``, with cause ``stop``."""
        ...

    def attach(self, make: Callable[[int, int], Attempt | None]) -> Sequence[Queued | Began]:
        """Take over the attempts that an earlier process has left with the engine.

        Called once, before anything else. Attempts that have ended meanwhile are included; `wait`
        returns their `Finished`.

        Args:
            make: Makes an attempt from its task's index and its own number. Returns None where that
                attempt's end is on record already.

        Returns:
            The attempts that the engine still has; none where attempts end with their process. The
            scheduler starts all other attempts anew.
        """
        ...

    def detach(self) -> None:
        """Release queued and running attempts without ending them; only where it `queues`."""
        ...

    def close(self) -> None:
        """Release all resources; every attempt has ended or is detached."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Site:
    """The settings that a run gives to the executor of its tasks.

    Attributes:
        tasks: All tasks that the executor may start.
        run: The run's directory; its name is the run's name.
        base: Directory that relative paths of inputs and outputs start from: the job file's.
        shared: Directory where tasks keep files for other tasks of the run, ``run:PATH``.
        secrets: Secrets of this machine, by the name that job files use.
        fake_gpus: Number of GPUs to pretend, for trying a job without any. Default 0: real GPUs.
        concurrency: Most tasks at once; None for as many as fit.
        keep_going: Whether an executor that queues continues after all of the first tasks have
            failed with the same reason.
    """

    tasks: Sequence[Task]
    run: Path
    base: Path
    shared: Path
    secrets: Mapping[str, Secret] = dataclasses.field(default_factory=dict)
    fake_gpus: int = 0
    concurrency: int | None = None
    keep_going: bool = False

    @property
    def name(self) -> str:
        """The run's name, unique among all runs."""
        return self.run.name


@dataclasses.dataclass(frozen=True)
class ExecutorKind:
    """An entry in the table of executors.

    A package provides an executor by an entry point of the group ``tarmac.executors``. The entry
    point's name is the value of ``--on``; its object is an `ExecutorKind`.

    Attributes:
        name: Name of the executor, as ``--on`` takes it.
        title: Name of the place for people: ``this machine``.
        refuse: Raises a RequestError for a task that can never run there, before a run is made.
            Gets the tasks and how many GPUs to pretend.
        open: Returns the executor for the tasks of a run.
        outlives: Whether attempts continue after the runner's process ends, so that Ctrl-C detaches
            from them. Stronger than `Executor.queues`: Ray's attempts queue, but end with the
            runner.
        has_secrets: Whether it has secrets of its own, by name and key; `refuse` looks for them.
        options: Pydantic model of ``options: {NAME: ...}`` in jobs; None where it has no options.
        preview: Yields the full text of each submission that a run would make. Creates nothing; the
            site's run directory need not exist.
        runners: Engine whose jobs can be runners; None where runners use the user's machine alone.
        refuse_afar: Replaces `refuse` where the runner is to be a job, as this machine may not
            reach the cluster; None where `refuse` covers that too.
        refuse_apart: Raises a RequestError where tasks with these options see no directory of this
            machine. Gets the options and a description of the work that needs a directory. None
            where all tasks see one.
        runs_containers: Whether the engine runs a task's container itself, so that no program
            beside it on the node could run one.
    """

    name: str
    title: str
    refuse: Callable[[Sequence[Task], int], None]
    open: Callable[[Site], Executor]
    outlives: bool = False
    has_secrets: bool = False
    options: type[BaseModel] | None = None
    preview: Callable[[Site], Iterator[str]] | None = None
    runners: RunnerEngine | None = None
    refuse_afar: Callable[[Sequence[Task], int], None] | None = None
    refuse_apart: Callable[[Mapping[str, Any], str], None] | None = None
    runs_containers: bool = False


def is_retried(
    attempt: Attempt, outcome: Outcome, exit_code: int | None, cause: Cause | None = None
) -> bool:
    """Return whether a retry follows an attempt's own failure; its outputs are not kept then.

    Always False for a disturbance: it spends no retry, and the scheduler alone decides.
    """
    retries = attempt.task.retries
    is_own = cause not in ("cancelled", "stop") and cause not in DISTURBANCES
    if outcome != "failed" or not is_own or attempt.number - attempt.free > retries.count:
        return False
    return not retries.exit_codes or exit_code in retries.codes
