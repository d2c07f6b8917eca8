"""The thread that reads a feed, so that the screen answers while a reading takes its time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from textual.message import Message

from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tarmac.monitor.feed import Feed
    from tarmac.monitor.snapshot import Snapshot

# How long its end is waited for: one reading is under way.
_ENDS_WITHIN_S = 2.0


class Came(Message):
    """A snapshot has come."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        super().__init__()


class Failed(Message):
    """No snapshot comes, and why; empty once one comes again."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__()


class Ended(Message):
    """The feed has nothing more: a recording's end."""


class Broke(Message):
    """An error that nobody foresaw has ended the readings."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__()


class FeedReader:
    """Reads a feed until it ends or is told to.

    Args:
        feed: What to read; closed at the end.
        interval_s: After a failure it is asked again so much later.
        post: Called in the thread with each of the messages above.
    """

    def __init__(self, feed: Feed, interval_s: float, post: Callable[[Message], object]) -> None:
        self._feed = feed
        self._interval_s = interval_s
        self._post = post
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._read, name="feed", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and close the feed."""
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
