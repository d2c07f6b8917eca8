"""Queries that may get no answer: each runs in a separate thread, with a timeout.

A thread that calls into a hung driver hangs too, and receives no signals.

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
from collections.abc import Callable
from typing import Generic, TypeVar, cast

T = TypeVar("T")


def answer_in_time(question: Callable[[], T], timeout_s: float) -> T:
    """Return the answer of a query.

    Args:
        question: Function to call in a separate thread.
        timeout_s: Maximum duration in seconds.

    Raises:
        NoAnswerError: There was no answer in time.
    """
    asker = Asker(question)
    asker.ask()
    try:
        return asker.answer(timeout_s)
    finally:
        asker.close()


class NoAnswerError(Exception):
    """No answer to a query in time.

    Attributes:
        silent_s: Seconds since the query began.
    """

    def __init__(self, silent_s: float) -> None:
        super().__init__(f"no answer for {silent_s:.0f} s")
        self.silent_s = silent_s


class Asker(Generic[T]):
    """A thread that repeats a query, never twice at a time.

    Args:
        question: Function to call in the thread.
        clock: Monotonic clock in seconds; for tests.
    """

    def __init__(
        self, question: Callable[..., T], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._question = question
        self._clock = clock
        self._asked: queue.SimpleQueue[tuple[object, ...] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()
        self._asked_at: float | None = None
        # A daemon thread: a call that never returns must not keep the program from exiting.
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def is_open(self) -> bool:
        """Whether a query waits for its answer."""
        return self._asked_at is not None

    def ask(self, *arguments: object) -> None:
        """Start a query, unless the last query is still open.

        A late answer belongs to the open query, so even a driver that is always slower than the
        timeout delivers its answers.
        """
        if self.is_open:
            return
        self._asked_at = self._clock()
        self._asked.put(arguments)

    def answer(self, timeout_s: float) -> T:
        """Return the answer of the open query.

        Args:
            timeout_s: Maximum duration in seconds, from the start of the query.

        Raises:
            NoAnswerError: There was no answer in time, or no query is open.
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
        """Stop the thread, now or once its call returns."""
        self._asked.put(None)

    def _serve(self) -> None:
        while (arguments := self._asked.get()) is not None:
            try:
                self._answers.put((self._question(*arguments), None))
            except Exception as error:
                self._answers.put((None, error))
