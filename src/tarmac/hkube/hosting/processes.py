"""The local executor as a loop sees it: attempts are started, and their ends are futures."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self

from tarmac.environments import engine_program
from tarmac.errors import RequestError
from tarmac.jobs import SHARED, Busy, Container, LocalExecutor, secret_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from tarmac.jobs import Attempt, Finished, Grant, Machine, Secret, Task

_LOOK_EVERY_S = 0.05


class Processes:
    """The processes of a run's instances; an asynchronous context manager.

    Args:
        machine: What they take from.
        templates: What will be started, but for its number and what differs between instances.
        run: Directory of the run; its ``shared`` folder is the executor's.
        base: Directory that relative paths start from.
        secrets: What names of secrets stand for here.
        grace_s: From SIGTERM to SIGKILL, in seconds, where a task is out of time.
        looked: Is called after each look at them.
        failed: Is told of a look that failed.
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
        """Begin to look at them."""
        self._watch = asyncio.get_running_loop().create_task(self._look())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let go of the executor; end what is left, which nobody waits for."""
        self._watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watch
        if self._ends:
            self._executor.stop()
        while self._ends:
            self._hear(_LOOK_EVERY_S)
        self._executor.close()

    def start(self, attempt: Attempt) -> tuple[Grant, asyncio.Future[Finished]] | None:
        """Start an attempt; None where there is no room for it now.

        Returns:
            What it has, and a future of its end.
        """
        (answer,) = self._executor.start([attempt])
        if isinstance(answer, Busy):
            return None
        ended: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        self._ends[attempt.task.index] = ended
        return answer.grant, ended

    def end(self, attempt: Attempt, reason: str, grace_s: float) -> None:
        """End an attempt: SIGTERM, a grace, SIGKILL."""
        self._executor.end(attempt, reason, grace_s)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                self._hear(0.0)
                self._looked()
            except Exception as error:
                # Nobody else sees how instances end, so this goes on.
                self._failed(error)

    def _hear(self, patience_s: float) -> None:
        if self._ends:
            for finished in self._executor.wait(patience_s):
                ended = self._ends.pop(finished.attempt.task.index)
                if not ended.done():
                    ended.set_result(finished)


def _with_engines(templates: Sequence[Task]) -> Iterator[Container]:
    """Yield the containers whose engines are installed; the others' tasks are refused."""
    for template in templates:
        container = template.environment
        if isinstance(container, Container):
            with contextlib.suppress(RequestError):
                engine_program(container.engine)
                yield container
