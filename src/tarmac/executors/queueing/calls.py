"""Calls to an engine in a thread, one at a time, while the executor's loop continues."""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_Answer = TypeVar("_Answer")


@dataclasses.dataclass(frozen=True)
class Call(Generic[_Answer]):
    """A call to an engine.

    Attributes:
        ask: Makes the call, in a thread, and returns the answer.
        hear: Handles the answer, in the thread of the executor's loop.
    """

    ask: Callable[[], _Answer]
    hear: Callable[[_Answer], None]

    def answered(self) -> Callable[[], None]:
        """Make the call; return a function that handles its answer."""
        answer = self.ask()
        return lambda: self.hear(answer)


class Calls:
    """Makes calls that may take a minute, in daemon threads that do not block the exit."""

    def __init__(self) -> None:
        self._answers: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.is_idle = True

    def make(self, call: Call[_Answer]) -> None:
        """Start a call; no other call may be in progress."""
        assert self.is_idle
        self.is_idle = False

        def run() -> None:
            try:
                self._answers.put(call.answered())
            except BaseException as error:
                self._answers.put(_raiser(error))

        threading.Thread(target=run, name="engine", daemon=True).start()

    def wake(self) -> None:
        """Interrupt the wait in `finish`; callable from any thread."""
        self._answers.put(None)

    def finish(self, patience_s: float) -> bool:
        """Wait for the call in progress and handle its answer; return False where none came.

        Args:
            patience_s: Seconds to wait, even where no call is in progress.

        Raises:
            BaseException: The exception that the call raised.
        """
        try:
            answered = self._answers.get(timeout=max(0.0, patience_s))
        except queue.Empty:
            return False
        if answered is None:
            return False
        self.is_idle = True
        answered()
        return True


def _raiser(error: BaseException) -> Callable[[], None]:
    def again() -> None:
        raise error

    return again
