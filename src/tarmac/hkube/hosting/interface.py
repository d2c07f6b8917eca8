"""The interface of a host of algorithms: tasks, endings, watchers and calls."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

RetryPolicy = Literal["Never", "Always", "OnError", "OnCrash"]

Why = Literal["", "error", "crash", "memory", "image", "ttl", "stopped", "refused"]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """One task for an algorithm.

    Attributes:
        index: Number of the task in the run, from 0; part of its directory's name.
        name: Name of the task in the run, for users: ``train``, ``train[3]``.
        task_id: Task ID that the algorithm receives: letters, digits, ``-`` and ``_``, or an ID
            that the user chose.
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
        retry: Policy that says which endings are retried. Default ``OnCrash``.
        limit: Most attempts in all. Default 3.
        priority: Priority from 1 to 5; 5 goes first. Default 3.
        caller: Task whose algorithm called this one; it keeps its resources meanwhile. None: no
            caller.
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
    """The ending of a task.

    Attributes:
        work: Task that has ended.
        value: Result of a task that succeeded: plain values, including ``bytes``.
        why: Reason code. Empty: success. ``error``: the algorithm reported an error. ``crash``: its
            process ended or its socket stayed away. ``memory``: memory limit. ``image``: no image.
            ``ttl``: time limit. ``stopped``: stopped on request. ``refused``: can never start here.
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
        """Whether the task succeeded."""
        return not self.why


class Watcher(Protocol):
    """A watcher of tasks, called in the loop's thread."""

    def started(self, work: Work, attempt: int, directory: Path, gpus: Sequence[str]) -> None:
        """Handle the start of an attempt; its directory has ``stdout`` and ``stderr``."""

    def progress(self, work: Work, value: float | None, details: str) -> None:
        """Handle a progress report: a fraction from 0 to 1, or None without a number."""

    def retrying(self, work: Work, reason: str, delay_s: float) -> None:
        """Handle a failed attempt that is retried."""

    def waiting(self, work: Work, reason: str) -> None:
        """Handle why a task waits, such as ``2 of 2 GPUs are in use``; called once per reason."""


class Calls(Protocol):
    """The calls that an algorithm can make during a task. A call returns at its callee's end."""

    async def run_algorithm(self, caller: Work, algorithm: str, inputs: Sequence[Any]) -> Ending:
        """Run another algorithm."""
        ...

    async def run_pipeline(self, caller: Work, body: Mapping[str, Any]) -> Any:
        """Run a raw pipeline with nodes, or a stored pipeline by its name, with flowInput.

        Returns:
            The pipeline's results, in HKube's form.

        Raises:
            TarmacError: The pipeline failed or was refused.
        """
        ...


class Host(Protocol):
    """A host that runs tasks: an asynchronous context manager for one loop and one thread."""

    def submit(self, work: Work) -> asyncio.Future[Ending]:
        """Queue a task; its future never raises, because failures are in its `Ending`.

        Cancelling the future stops the task: ``stop``, a grace period, SIGKILL.
        """
        ...
