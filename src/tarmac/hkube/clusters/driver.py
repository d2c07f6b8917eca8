"""A job executor for an asyncio loop: a thread starts, polls and ends attempts.

An executor blocks, which a loop must not do, and only one thread may use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

from tarmac.jobs import Attempt, Busy, Event, Executor, Finished

# How the executor is released: its attempts are ended, or left to its engine.
Leaving = Literal["stop", "detach"]

# Longest wait for executor events before new requests are handled.
_PATIENCE_S = 0.2

# Pause before an executor without room is asked again.
_FULL_FOR_S = 2.0

# From SIGTERM to SIGKILL, as for jobs.
_GRACE_S = 10.0


@dataclasses.dataclass(frozen=True)
class _End:
    attempt: Attempt
    reason: str


class Driver:
    """A thread that runs attempts with an executor.

    Args:
        executor: Executor that only the thread uses and closes.
        active: Attempts of an earlier session that the executor already has.
        heard: Function that gets each event, in the loop's thread. The executor continues after the
            function returns, so the journal has the event by then.
        failed: Function that gets an error that stops the executor, in the loop's thread.
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
        """Start an attempt as soon as there is room; a `Finished` event follows in any case."""
        self._wanted.put(attempt)

    def end(self, attempt: Attempt, reason: str) -> None:
        """End an attempt; its `Finished` event follows as usual."""
        self._wanted.put(_End(attempt, reason))

    async def close(self, leaving: Leaving) -> None:
        """Release the executor after its attempts are ended or left to the engine."""
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
        """Handle requests and executor events; return whether to continue."""
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
        """Start waiting attempts while the executor has room."""
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
