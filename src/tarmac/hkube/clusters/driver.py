"""An executor of jobs as a loop sees it: attempts begin and end beside it, in one thread.

An executor waits where a loop may not, and is one thread's alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import queue
import threading
import time
from typing import TYPE_CHECKING, Literal

from tarmac.jobs import Busy, Finished

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tarmac.jobs import Attempt, Event, Executor

# How the executor is let go of: what it has is ended, or left to its engine.
Leaving = Literal["stop", "detach"]

# How often it is looked whether something is wanted.
_PATIENCE_S = 0.2

# An executor without room is asked again so often.
_FULL_FOR_S = 2.0

# As jobs have it: from SIGTERM to SIGKILL.
_GRACE_S = 10.0


@dataclasses.dataclass(frozen=True)
class _End:
    attempt: Attempt
    reason: str


class Driver:
    """Takes attempts through an executor, in a thread of its own.

    Args:
        executor: Is used by the thread alone, and closed by it.
        active: Attempts that it has already: those of an earlier session.
        heard: Is told what happens, in the loop's thread. The executor goes on once it returns, so
            what it writes down is on record by then.
        failed: Is told, in the loop's thread, of what keeps the executor from going on.
    """

    def __init__(
        self,
        executor: Executor,
        active: Sequence[Attempt],
        *,
        heard: Callable[[Event], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._executor = executor
        self._heard = heard
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._wanted: queue.SimpleQueue[Attempt | _End | Leaving] = queue.SimpleQueue()
        self._waiting: dict[tuple[int, int], Attempt] = {}
        self._active = {_key(attempt) for attempt in active}
        self._leaving: Leaving | None = None
        self._full_until = 0.0
        self._thread = threading.Thread(target=self._drive, name="executor", daemon=True)
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._thread.start()

    def begin(self, attempt: Attempt) -> None:
        """Have an attempt begin as soon as there is room; its end comes in any case."""
        self._wanted.put(attempt)

    def end(self, attempt: Attempt, reason: str) -> None:
        """Have an attempt end; its `Finished` comes as of any other."""
        self._wanted.put(_End(attempt, reason))

    async def close(self, leaving: Leaving) -> None:
        """Let go of the executor, once what it has is ended or left."""
        self._wanted.put(leaving)
        await asyncio.shield(self._over)
        self._thread.join()

    def _drive(self) -> None:
        try:
            with contextlib.closing(self._executor):
                while self._step():
                    pass
        except Exception as error:
            self._loop.call_soon_threadsafe(self._failed, error)
        self._loop.call_soon_threadsafe(self._over.set_result, None)

    def _step(self) -> bool:
        """Do what is wanted and hear what has happened; return whether to go on."""
        events: list[Event] = []
        with contextlib.suppress(queue.Empty):
            while True:
                events += self._obey(self._wanted.get_nowait())
        if self._leaving == "detach":
            self._executor.detach()
            return False
        events += self._start()
        if not events:
            events += self._executor.wait(_PATIENCE_S)
        for event in events:
            if isinstance(event, Finished):
                self._active.discard(_key(event.attempt))
                self._full_until = 0.0
        if events:
            asyncio.run_coroutine_threadsafe(self._tell(events), self._loop).result()
        return self._leaving is None or bool(self._active)

    def _obey(self, wanted: Attempt | _End | Leaving) -> Sequence[Event]:
        match wanted:
            case "stop":
                self._leaving = wanted
                self._executor.stop()
                return self._forget_waiting("the run was stopped")
            case "detach":
                self._leaving = wanted
            case _End(attempt, reason):
                if _key(attempt) in self._waiting:
                    del self._waiting[_key(attempt)]
                    return [Finished(attempt, "interrupted", reason, cause="stop")]
                self._executor.end(attempt, reason, _GRACE_S)
            case attempt:
                self._waiting[_key(attempt)] = attempt
                if self._leaving == "stop":
                    return self._forget_waiting("the run was stopped")
        return ()

    def _forget_waiting(self, reason: str) -> Sequence[Event]:
        waiting = [*self._waiting.values()]
        self._waiting.clear()
        return [Finished(attempt, "interrupted", reason, cause="stop") for attempt in waiting]

    def _start(self) -> Sequence[Event]:
        """Hand over what waits, as long as there is room for it."""
        now = time.monotonic()
        if not self._waiting or now < self._full_until:
            return ()
        attempts = [*self._waiting.values()]
        events: list[Event] = []
        for attempt, answer in zip(attempts, self._executor.start(attempts), strict=True):
            if isinstance(answer, Busy):
                self._full_until = now + _FULL_FOR_S
                continue
            del self._waiting[_key(attempt)]
            self._active.add(_key(attempt))
            events.append(answer)
        return events

    async def _tell(self, events: Sequence[Event]) -> None:
        for event in events:
            self._heard(event)


def _key(attempt: Attempt) -> tuple[int, int]:
    return attempt.task.index, attempt.number
