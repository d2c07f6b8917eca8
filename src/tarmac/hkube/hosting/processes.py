"""The local executor for an asyncio loop: the end of each attempt is a future."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tarmac.environments import engine_program
from tarmac.errors import RequestError
from tarmac.jobs import (
    SHARED,
    Attempt,
    Busy,
    Container,
    Finished,
    Grant,
    LocalExecutor,
    Machine,
    Secret,
    Task,
    secret_variables,
)

_LOOK_EVERY_S = 0.05


class Processes:
    """The processes of a run's instances; an asynchronous context manager.

    Args:
        machine: Machine whose cores, memory and GPUs the processes use.
        templates: Tasks planned from the algorithms' jobs, without their instances' numbers.
        run: Directory of the run; its ``shared`` folder is the executor's.
        base: Directory that relative paths start from.
        secrets: Sources of the secrets on this machine, by secret name.
        grace_s: Seconds from SIGTERM to SIGKILL for a task out of time.
        looked: Function that is called after each poll of the processes.
        failed: Function that gets the error of a failed poll.
    """

    def __init__(
        self,
        machine: Machine,
        templates: Sequence[Task],
        run: Path,
        *,
        base: Path,
        secrets: Mapping[str, Secret],
        grace_s: float,
        looked: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._executor = LocalExecutor(
            machine,
            base,
            run / SHARED,
            containers=[*_with_engines(templates)],
            mapping=secrets,
            secret_variables=secret_variables(templates, secrets),
            grace_s=grace_s,
        )
        self._looked = looked
        self._failed = failed
        self._ends: dict[int, asyncio.Future[Finished]] = {}

    async def __aenter__(self) -> Self:
        """Start to poll the processes."""
        self._watch = asyncio.get_running_loop().create_task(self._look())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the remaining processes, and close the executor."""
        self._watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watch
        if self._ends:
            self._executor.stop()
        while self._ends:
            self._on_answer(_LOOK_EVERY_S)
        self._executor.close()

    def start(self, attempt: Attempt) -> tuple[Grant, asyncio.Future[Finished]] | None:
        """Start an attempt; return None if there is no room for it now.

        Returns:
            The attempt's resources and a future of its end.
        """
        (answer,) = self._executor.start([attempt])
        if isinstance(answer, Busy):
            return None
        ended: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        self._ends[attempt.task.index] = ended
        return answer.grant, ended

    def end(self, attempt: Attempt, reason: str, grace_s: float) -> None:
        """End an attempt: SIGTERM, a grace period, SIGKILL."""
        self._executor.end(attempt, reason, grace_s)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                self._on_answer(0.0)
                self._looked()
            except Exception as error:
                # Continue after an error, because only this poll notices the end of instances.
                self._failed(error)

    def _on_answer(self, patience_s: float) -> None:
        if self._ends:
            for finished in self._executor.wait(patience_s):
                ended = self._ends.pop(finished.attempt.task.index)
                if not ended.done():
                    ended.set_result(finished)


def _with_engines(templates: Sequence[Task]) -> Iterator[Container]:
    """Yield the containers whose engines are installed; tasks of other containers are refused."""
    for template in templates:
        container = template.environment
        if isinstance(container, Container):
            with contextlib.suppress(RequestError):
                engine_program(container.engine)
                yield container
