"""What a host of algorithms takes and gives: work, its ending, and who is told."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, Sequence
    from pathlib import Path

RetryPolicy = Literal["Never", "Always", "OnError", "OnCrash"]

Why = Literal["", "error", "crash", "memory", "image", "ttl", "stopped", "refused"]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """One task for an algorithm.

    Attributes:
        index: Its number in the run, from 0; its directory is named by it.
        name: Name of the task in the run, for people: ``train``, ``train[3]``.
        task_id: As the algorithm is told it: letters, digits, ``-`` and ``_``, or the user's own.
        algorithm: Name of the algorithm that does the task.
        input: Input list that ``initialize`` carries.
        job_id: ID of the pipeline's run that the task belongs to.
        root_job_id: ID of the outermost pipeline's run. None if that is ``job_id``.
        pipeline: Name of the pipeline that the task belongs to.
        node: Name of the node that the task belongs to.
        batch_index: Number of the task in its batch, from 1. None if the node is no batch.
        parents: Names of nodes whose results it takes.
        children: Names of nodes that take its result.
        ttl_s: Time limit in seconds; the task then stops as failed. Default: none.
        retry: After which endings it is tried again.
        limit: Most attempts in all. Default 3.
        priority: 1 to 5; 5 goes first. Default 3.
        caller: The task whose algorithm has asked for it, which keeps its resources meanwhile.
    """

    index: int
    name: str
    task_id: str
    algorithm: str
    input: Sequence[Any]
    job_id: str
    root_job_id: str | None = None
    pipeline: str
    node: str
    batch_index: int | None = None
    parents: Sequence[str] = ()
    children: Sequence[str] = ()
    ttl_s: float | None = None
    retry: RetryPolicy = "OnCrash"
    limit: int = 3
    priority: int = 3
    caller: Work | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a task ended.

    Attributes:
        work: Task that has ended.
        value: Its result, where it succeeded: plain values, ``bytes`` among them.
        why: Empty where it succeeded. ``error`` is the algorithm's own, ``crash`` its process's end
            or a socket that stayed away, ``memory`` a crash by its memory limit, ``image`` an image
            that cannot be had, ``ttl`` its time limit, ``stopped`` what was asked, ``refused`` what
            can never be started here.
        message: Reason in words. Empty if the task succeeded.
        code: Error code that the algorithm sent. Default: empty.
        details: Error details that the algorithm sent. Default: empty.
        exit_code: Exit code of the process, if its end is the reason. Default: None.
        attempts: Number of attempts made; 0 if none started.
        seconds: Duration of the last attempt, from ``start``.
    """

    work: Work
    value: Any = None
    why: Why = ""
    message: str = ""
    code: str = ""
    details: str = ""
    exit_code: int | None = None
    attempts: int = 0
    seconds: float = 0.0

    @property
    def succeeded(self) -> bool:
        """Whether it did."""
        return not self.why


class Watcher(Protocol):
    """Is told what happens to tasks, in the loop's thread."""

    def started(self, work: Work, attempt: int, directory: Path, gpus: Sequence[str]) -> None:
        """An attempt begins in an instance whose directory has its ``stdout`` and ``stderr``."""

    def progress(self, work: Work, value: float | None, details: str) -> None:
        """The algorithm says how far it is: 0 to 1, None where it says no number."""

    def retrying(self, work: Work, reason: str, delay_s: float) -> None:
        """An attempt failed, and another one follows."""

    def waiting(self, work: Work, reason: str) -> None:
        """It cannot begin now, and why: ``2 of 2 GPUs are in use``. Told once for each reason."""


class Calls(Protocol):
    """What an algorithm can ask for while it works. Each returns when that has ended."""

    async def run_algorithm(self, caller: Work, algorithm: str, inputs: Sequence[Any]) -> Ending:
        """Run another algorithm."""
        ...

    async def run_pipeline(self, caller: Work, body: Mapping[str, Any]) -> Any:
        """Run a pipeline: a raw one with nodes, or a stored one by its name, with flowInput.

        Returns:
            The pipeline's results, as HKube gives them.

        Raises:
            TarmacError: It has failed, or is refused.
        """
        ...


class Host(Protocol):
    """Runs tasks by algorithms. An asynchronous context manager; one loop, one thread."""

    def submit(self, work: Work) -> asyncio.Future[Ending]:
        """Queue a task. Its future never raises: what goes wrong is its `Ending`.

        Cancelling the future stops the task: ``stop``, a grace, SIGKILL.
        """
        ...
