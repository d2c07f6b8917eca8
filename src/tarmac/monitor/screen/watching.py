"""The thread that reads a feed, so that the screen responds during a slow reading."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.message import Message

from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from tarmac.monitor.feed import Feed
    from tarmac.monitor.snapshot import Snapshot

# Longest wait for the end of the thread, which may be in the middle of a reading.
_ENDS_WITHIN_S = 2.0


class Came(Message):
    """A message with a new snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        super().__init__()


class Failed(Message):
    """A message with the reason why no snapshot comes; empty once one comes again."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__()


class Ended(Message):
    """A message at the end of a feed, as at that of a recording."""


class Broke(Message):
    """A message with an unexpected error that has ended the reading."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__()


class FeedReader:
    """A thread that reads a feed until the feed ends or `stop` is called.

    Args:
        feed: Feed to read. Closed by `stop`.
        interval_s: Seconds between a failure and the next attempt.
        post: Callback for each of the messages above, called in the thread.
    """

    def __init__(self, feed: Feed, interval_s: float, post: Callable[[Message], object]) -> None:
        self._feed = feed
        self._interval_s = interval_s
        self._post = post
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._read, name="feed", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and close the feed."""
        self._ends.set()
        if self._thread.ident is not None:
            self._thread.join(_ENDS_WITHIN_S)
        self._feed.close()

    def _read(self) -> None:
        problem = ""
        while not self._ends.is_set():
            try:
                snapshot = self._feed.next()
            except StopIteration:
                self._post(Ended())
                return
            except TarmacError as error:
                problem = error.message
                self._post(Failed(problem))
                self._ends.wait(self._interval_s)
                continue
            except Exception as error:
                self._post(Broke(error))
                return
            if self._ends.is_set():
                return
            if problem:
                problem = ""
                self._post(Failed(""))
            self._post(Came(snapshot))
