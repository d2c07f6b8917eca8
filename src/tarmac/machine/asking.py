"""A question whose answer may never come: asked in a thread of its own, waited for so long only.

Drivers hang, and whoever calls into one that does hangs with it, beyond any signal's reach.

Example:
    >>> asker = Asker(lambda number: number * 2)
    >>> asker.ask(21)
    >>> asker.answer(timeout_s=10.0)
    42
"""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def answer_in_time(question: Callable[[], T], timeout_s: float) -> T:
    """Return a question's answer.

    Args:
        question: Is called in a thread of its own.
        timeout_s: How long it may take.

    Raises:
        NoAnswerError: It has not come in time.
    """
    asker = Asker(question)
    asker.ask()
    try:
        return asker.answer(timeout_s)
    finally:
        asker.close()


class NoAnswerError(Exception):
    """A question is still open.

    Attributes:
        silent_s: Since when it was asked.
    """

    def __init__(self, silent_s: float) -> None:
        super().__init__(f"no answer for {silent_s:.0f} s")
        self.silent_s = silent_s


class Asker(Generic[T]):
    """Asks one thing again and again, never twice at a time.

    Args:
        question: Is called in the thread.
        clock: Seconds that only grow; for tests.
    """

    def __init__(
        self, question: Callable[..., T], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._question = question
        self._clock = clock
        self._asked: queue.SimpleQueue[tuple[object, ...] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()
        self._asked_at: float | None = None
        # A daemon: a call that never comes back must not keep the program from its end.
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def is_open(self) -> bool:
        """Whether a question waits for its answer."""
        return self._asked_at is not None

    def ask(self, *arguments: object) -> None:
        """Ask, unless the last question is still open: what comes late is its answer, and no other.

        So a driver that is always slower than anybody waits is heard all the same.
        """
        if self.is_open:
            return
        self._asked_at = self._clock()
        self._asked.put(arguments)

    def answer(self, timeout_s: float) -> T:
        """Return the answer to the question that is open.

        Args:
            timeout_s: How long it may take, from when it was asked.

        Raises:
            NoAnswerError: It has not come in time, or nothing was asked.
        """
        if self._asked_at is None:
            raise NoAnswerError(0.0)
        left = max(0.0, self._asked_at + timeout_s - self._clock())
        try:
            value, problem = self._answers.get(timeout=left)
        except queue.Empty:
            raise NoAnswerError(self._clock() - self._asked_at) from None
        self._asked_at = None
        if problem is not None:
            raise problem
        return cast("T", value)

    def close(self) -> None:
        """End the thread, now or once its call comes back."""
        self._asked.put(None)

    def _serve(self) -> None:
        while (arguments := self._asked.get()) is not None:
            try:
                self._answers.put((self._question(*arguments), None))
            except Exception as error:
                self._answers.put((None, error))
