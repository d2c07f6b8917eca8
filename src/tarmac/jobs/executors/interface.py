"""What starts tasks: the interface that each place where tasks run implements.

The scheduler (`tarmac.jobs.scheduler`) knows what may run next and what follows a failure. An
executor knows where there is room, starts attempts there, watches their limits, keeps their outputs
and says how they ended. A cluster's executor queues attempts, which outlive the process that asked
for them: another one attaches to what it left. The local one accepts what fits, and ends with it.

Version 2 of the contract: attempts in bulk, events, attach and detach.

Every executor passes the checks of `tarmac.testing.executors`, which the author of a new one can
import.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from tarmac.jobs.executors.attempt import Attempt, Outcome
from tarmac.jobs.executors.events import DISTURBANCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pydantic import BaseModel

    from tarmac.jobs.executors.events import Began, Cause, Event, Queued
    from tarmac.jobs.executors.runners import RunnerEngine
    from tarmac.jobs.model import Secret
    from tarmac.jobs.plan import Task

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
    """Why an attempt cannot begin now.

    Attributes:
        FULL: CPUs or memory are short. Nothing may overtake, or a large task might wait for ever.
        NO_GPU: Only GPUs are short; tasks without any may go on.
    """

    FULL = "full"
    NO_GPU = "no gpu"


class Executor(Protocol):
    """Where the tasks of one run are started."""

    @property
    def queues(self) -> bool:
        """Whether attempts wait in an engine's queue, and outlive this executor.

        How many run at once is the executor's business then, else the scheduler's. Whether they
        outlive the process too is said by `ExecutorKind.outlives`.
        """
        ...

    def start(self, attempts: Sequence[Attempt]) -> Sequence[Began | Queued | Busy]:
        """Begin or queue attempts, or say why there is no room for some now.

        Returns at once: bringing inputs and the like goes on behind it. What goes wrong from here
        on is an attempt's `Finished`, never an exception.

        Args:
            attempts: Attempts to begin, in the order in which they are wanted.

        Returns:
            An answer for each attempt, in their order. Those answered by `Busy` were not taken and
            may be asked for again.
        """
        ...

    def wait(self, patience_s: float) -> Sequence[Event]:
        """Return what has happened since, each attempt's end once.

        What it returned before is on record by the time that it is called again: until then an
        executor that queues keeps what `attach` needs to tell it once more.

        `Queued` comes where the answer of `start` had no place yet; `Waiting`, `Began` and
        `Requeued` as they are seen.

        Args:
            patience_s: Seconds to wait for the first event.
        """
        ...

    def end(self, attempt: Attempt, reason: str, grace_s: float) -> None:
        """End one attempt: SIGTERM, a grace, SIGKILL. It finishes as ``interrupted``.

        One that has ended is left as it is.

        Args:
            attempt: Attempt that `start` has taken.
            reason: Reason for people, which becomes part of its `Finished`.
            grace_s: How long it may take to end by itself, in seconds. An executor that queues may
                leave it what its engine gives all attempts instead, which cannot be told another.
        """
        ...

    def stop(self) -> None:
        """End all attempts, as `end` does. They finish as ``interrupted``, with cause ``stop``."""
        ...

    def attach(self, make: Callable[[int, int], Attempt | None]) -> Sequence[Queued | Began]:
        """Take over the attempts that an earlier process has left with the engine.

        Called once, before anything else. One that has ended meanwhile is among them, and its
        `Finished` comes from `wait`.

        Args:
            make: Makes an attempt from its task's index and its own number. Returns None where that
                attempt's end is on record already.

        Returns:
            What is there; nothing where attempts end with their process. Whatever else was queued
            by an earlier process is tried anew.
        """
        ...

    def detach(self) -> None:
        """Let go of what is queued and runs without ending it; asked only where it `queues`."""
        ...

    def close(self) -> None:
        """Let go of everything; no attempt is at work any more, or all were detached."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Site:
    """What a run gives the executor of its tasks.

    Attributes:
        tasks: All tasks that the executor may start.
        run: The run's directory; its name is the run's.
        base: Directory that relative paths of inputs and outputs start from: the job file's.
        shared: The directory where tasks keep what is for other tasks of the run, ``run:PATH``.
        secrets: Secrets of this machine, by the name that job files use.
        fake_gpus: Number of GPUs to pretend, for trying a job without any. Default 0: real GPUs.
        concurrency: Most tasks at once; None for as many as there is room for.
        keep_going: Whether an executor that queues goes on also where the first tasks have all
            failed alike.
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
        """The run's name, its own among all runs."""
        return self.run.name


@dataclasses.dataclass(frozen=True)
class ExecutorKind:
    """A row of the table of executors.

    A package provides one by an entry point of the group ``tarmac.executors``, whose name is what
    ``--on`` takes and whose value is such a row.

    Attributes:
        name: Name of the executor, as ``--on`` takes it.
        title: Name of the place for people: ``this machine``.
        refuse: Raises a RequestError where a task can never run there, before a run is made. Gets
            the tasks and how many GPUs to pretend.
        open: Returns the executor for the tasks of a run.
        outlives: Whether what was started goes on when the process ends that asked for it, so that
            Ctrl-C lets go of it. More than that its executors queue: Ray's do, and end with it.
        has_secrets: Whether it has secrets of its own, by name and key; `refuse` looks for them.
        options: Pydantic model of ``options: {NAME: ...}`` in jobs; None where it has no options.
        preview: Yields each text that a run would submit, whole, where it submits any. Nothing is
            made; the site's run is not there.
        runners: Engine whose jobs can be runners; None where runners use the user's machine alone.
        refuse_afar: In place of `refuse` where the run's runner is to be a job, for the cluster may
            be one that this machine cannot ask; None where `refuse` does for that too.
        refuse_apart: Raises a RequestError where tasks with such options of its own see no
            directory of this machine, for work that lives in one, and says what that is; None where
            all see one.
        runs_containers: Whether a task with a container is that container, so that nothing beside
            it on its node could run one.
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
    """Whether an attempt's own failure is followed by another one; its outputs are not kept then.

    A disturbance is none of these: it spends no retry, and the scheduler alone decides.
    """
    retries = attempt.task.retries
    is_own = cause not in ("cancelled", "stop") and cause not in DISTURBANCES
    if outcome != "failed" or not is_own or attempt.number - attempt.free > retries.count:
        return False
    return not retries.exit_codes or exit_code in retries.codes
