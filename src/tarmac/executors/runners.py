"""The engine's interface for runners that are themselves jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

# At least twice the measured memory: 54 MiB with 100 tasks, 80 with 10,000 and 195 with 100,000;
# planning a million tasks took 1,335.
_MEMORY_BYTES, _MEMORY_OF_TASK_BYTES = 256 * 2**20, 3 * 2**10


def runner_memory(num_tasks: int) -> int:
    """Return the bytes of memory that a runner of this many tasks needs."""
    return _MEMORY_BYTES + num_tasks * _MEMORY_OF_TASK_BYTES


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerJob:
    """A runner's job for an engine: a small program that waits most of the time.

    Attributes:
        run: The run's directory; what the runner prints is added to ``runner.log`` there.
        number: Number of the runner job in its run, from 1. Run and number together name the job.
        num_tasks: Number of tasks in the run; the runner's memory grows with it.
        command: The program and its arguments.
        variables: Environment variables to add to those of the engine's jobs; none is secret.
        secrets: Variables that the engine must not store; the runner gets them by
            `RunnerEngine.secrets`.
        options: Options of the engine, from the job's ``options``.
        warned: File that the job creates shortly before its time limit, even before the program has
            begun.
        after: The engine's name for the runner job that must end first; empty for none.
    """

    run: Path
    number: int
    num_tasks: int
    command: Sequence[str]
    variables: Mapping[str, str]
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    options: Mapping[str, Any]
    warned: Path
    after: str = ""


@dataclasses.dataclass(frozen=True)
class RunnerState:
    """The state of a runner's job, as its engine reports it.

    Attributes:
        kind: State of the runner's job; ``unknown`` where the engine does not answer, ``elsewhere``
            where commands reach another cluster than the runner's.
        words: State for people: ``job 81 waits for its turn (Priority)``.
    """

    kind: Literal["waits", "runs", "ended", "unknown", "elsewhere"]
    words: str


class RunnerEngine(Protocol):
    """An engine whose jobs can be runners."""

    def submit(self, job: RunnerJob) -> str:
        """Submit a runner's job exactly once; after no answer, search for the job first.

        Returns:
            The engine's name for the job: ``81``.

        Raises:
            RequestError: The runner's secrets cannot be stored.
            TarmacError: The engine refused the job, with the engine's message; or no engine
                answers.
        """
        ...

    def secrets(self, run: Path) -> Mapping[str, str]:
        """Return the secrets of the run's last submitted runner, while they exist.

        Args:
            run: Directory of the run that the runners work for.
        """
        ...

    def look(self, run: Path, number: int, place: str, since: datetime) -> RunnerState:
        """Return the present state of a runner's job, without a long wait.

        Args:
            run: Directory of the run that the runner works for.
            number: Number of the runner job in its run, from 1.
            place: The engine's name for the job, as `submit` returned it.
            since: Time of the job's submission.
        """
        ...

    def cancel(self, run: Path, numbers: Sequence[int]) -> None:
        """Cancel runner jobs of a run, and remove their secrets.

        Jobs of an engine that does not answer stay in its queue.
        """
        ...
