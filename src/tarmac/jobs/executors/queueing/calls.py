"""Calls to an engine, one at a time, while their caller goes on."""

from __future__ import annotations

import dataclasses
import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Answer = TypeVar("_Answer")


@dataclasses.dataclass(frozen=True)
class Call(Generic[_Answer]):
    """A call to an engine.

    Attributes:
        ask: Makes it, in a thread, and returns the answer.
        hear: Gets the answer, where all else happens.
    """

    ask: Callable[[], _Answer]
    hear: Callable[[_Answer], None]

    def answered(self) -> Callable[[], None]:
        """Make the call, and return what hands its answer on."""
        answer = self.ask()
        return lambda: self.hear(answer)


class Calls:
    """Makes calls that may take a minute, in a thread that its process does not wait for."""

    def __init__(self) -> None:
        self._answers: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.is_idle = True

    def make(self, call: Call[_Answer]) -> None:
        """Begin a call; none may be on its way."""
        assert self.is_idle
        self.is_idle = False

        def run() -> None:
            try:
                self._answers.put(call.answered())
            except BaseException as error:
                self._answers.put(_raiser(error))

        threading.Thread(target=run, name="engine", daemon=True).start()

    def wake(self) -> None:
        """End the waiting in `finish`; from any thread."""
        self._answers.put(None)

    def finish(self, patience_s: float) -> bool:
        """Wait for the call on its way, hand its answer on, and return whether it came.

        Args:
            patience_s: How long to wait, in seconds, also where no call is on its way.

        Raises:
            BaseException: What the call raised.
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
