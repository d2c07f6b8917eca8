"""What an engine does for a runner that is itself one of its jobs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path
    from typing import Any

# Twice and more of what was measured: 54 MiB with 100 tasks, 80 with 10,000 and 195 with 100,000;
# planning a million took 1,335.
_MEMORY_BYTES, _MEMORY_OF_TASK_BYTES = 256 * 2**20, 3 * 2**10


def runner_memory(num_tasks: int) -> int:
    """Return how many bytes are enough for the runner of so many tasks."""
    return _MEMORY_BYTES + num_tasks * _MEMORY_OF_TASK_BYTES


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerJob:
    """A runner, as an engine is to start it: a small program that waits most of the time.

    Attributes:
        run: The run's directory; what the runner prints is added to ``runner.log`` there.
        number: Number of the runner job in its run, from 1. Run and number together name the job.
        num_tasks: Number of tasks in the run; the runner's memory grows with it.
        command: The program and its arguments.
        variables: Environment variables to add to those of the engine's jobs; none is secret.
        secrets: Variables that the engine must not store; the runner gets them by
            `RunnerEngine.secrets`.
        options: Options of the engine, from the job's ``options``.
        warned: File that the job makes shortly before its time limit, also before the program has
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
    """What an engine says of a runner.

    Attributes:
        kind: State of the runner's job; ``unknown`` where the engine does not answer, ``elsewhere``
            where the engine that answers is another cluster than the runner's.
        words: State for people: ``job 81 waits for its turn (Priority)``.
    """

    kind: Literal["waits", "runs", "ended", "unknown", "elsewhere"]
    words: str


class RunnerEngine(Protocol):
    """Where runners can be jobs."""

    def submit(self, job: RunnerJob) -> str:
        """Submit a runner, once: where it is not known whether it was accepted, it is looked for.

        Returns:
            The engine's name for the job: ``81``.

        Raises:
            RequestError: There is no place for its secrets.
            TarmacError: It was refused, with the engine's words; or nothing answers.
        """
        ...

    def secrets(self, run: Path) -> Mapping[str, str]:
        """Return the secrets that runners of a run were last submitted with, while there are any.

        Args:
            run: Directory of the run that the runners work for.
        """
        ...

    def look(self, run: Path, number: int, place: str, since: datetime) -> RunnerState:
        """Return what is known of a runner's job now; never waits for long.

        Args:
            run: Directory of the run that the runner works for.
            number: Number of the runner job in its run, from 1.
            place: The engine's name for it, as `submit` has returned it.
            since: Time of its submission.
        """
        ...

    def cancel(self, run: Path, numbers: Sequence[int]) -> None:
        """Take runner jobs of a run out of the queue, and remove their secrets.

        What cannot be reached stays there.
        """
        ...
