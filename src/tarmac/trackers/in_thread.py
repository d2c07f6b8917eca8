"""A tracker in its own thread, so that neither its server nor its errors reach a training."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping

from tarmac.errors import TarmacError, first_line
from tarmac.trackers.tracker import Tracker

# Importing a client takes seconds, and so does a distant server.
_OPENING_S = 120.0
# Data that a server has not accepted by then are given up.
_ENDING_S = 60.0


class InThread:
    """A tracker whose calls run in a thread, in order; see `Tracker`.

    Args:
        title: Name of the tracker in messages.
        opened: Opens the tracker. Called in the thread.
        opening_s: Seconds to wait for the tracker to open.
        ending_s: Seconds that `end` waits for queued calls.

    Attributes:
        place: URL or directory where people see the run.
        problem: Message about data that the tracker did not accept; empty if it accepted all.

    Raises:
        TarmacError: The tracker cannot be opened.
    """

    def __init__(
        self,
        title: str,
        opened: Callable[[], Tracker],
        *,
        opening_s: float = _OPENING_S,
        ending_s: float = _ENDING_S,
    ) -> None:
        self.problem = ""
        self._title = title
        self._ending_s = ending_s
        self._calls: queue.SimpleQueue[Callable[[Tracker], None] | None] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[Tracker | Exception] = queue.SimpleQueue()
        # A daemon: a server without an answer must not keep the process from ending.
        self._thread = threading.Thread(
            target=self._work, args=(opened,), name="tarmac-tracker", daemon=True
        )
        self._thread.start()
        self.place = self._await_opened(opening_s)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Queue the metrics of a step; see `Tracker.log`."""
        row = dict(metrics)
        self._calls.put(lambda tracker: tracker.log(step, row))

    def end(self, status: str, summary: Mapping[str, float]) -> None:
        """Queue the final status, and wait ``ending_s`` at most; see `Tracker.end`."""
        values = dict(summary)
        self._calls.put(lambda tracker: tracker.end(status, values))
        self._calls.put(None)
        self._thread.join(self._ending_s)
        if self._thread.is_alive():
            self.problem = f"{self._title} has not taken all within {self._ending_s:g} s"

    def _await_opened(self, limit_s: float) -> str:
        try:
            answer = self._found.get(timeout=limit_s)
        except queue.Empty:
            raise TarmacError(
                f"{self._title} has not answered for {limit_s:g} s",
                hint="Check that its server runs, or leave out --log-to.",
            ) from None
        if isinstance(answer, TarmacError):
            raise answer
        if isinstance(answer, Exception):
            raise TarmacError(
                f"{self._title} cannot be opened: {first_line(answer)}",
                hint="To train without it, leave out --log-to.",
            ) from answer
        return answer.place

    def _work(self, opened: Callable[[], Tracker]) -> None:
        try:
            tracker = opened()
        except Exception as error:
            self._found.put(error)
            return
        self._found.put(tracker)
        while (call := self._calls.get()) is not None:
            try:
                call(tracker)
            except Exception as error:
                # Later errors mostly follow from the first.
                self.problem = self.problem or f"{self._title}: {first_line(error)}"
