"""The thread that reads a feed, so that the screen answers while a reading takes its time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tarmac.monitor.feed import Feed
    from tarmac.monitor.snapshot import Snapshot

__all__ = ["FeedReader"]

# How long its end is waited for: one reading is under way.
_ENDS_WITHIN_S = 2.0


class FeedReader:
    """Reads a feed until it ends or is told to.

    Args:
        feed: What to read; closed at the end.
        interval_s: After a failure it is asked again so much later.
        came: Called in the thread with each snapshot.
        failed: Called in the thread with what kept one from coming; empty once that is over.
        ended: Called in the thread when there are no more.
        broke: Called in the thread with an error that nobody foresaw; none is read after it.
    """

    def __init__(
        self,
        feed: Feed,
        interval_s: float,
        *,
        came: Callable[[Snapshot], object],
        failed: Callable[[str], object],
        ended: Callable[[], object],
        broke: Callable[[Exception], object],
    ) -> None:
        self._feed = feed
        self._interval_s = interval_s
        self._came = came
        self._failed = failed
        self._ended = ended
        self._broke = broke
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
                self._ended()
                return
            except TarmacError as error:
                problem = error.message
                self._failed(problem)
                self._ends.wait(self._interval_s)
                continue
            except Exception as error:
                self._broke(error)
                return
            if self._ends.is_set():
                return
            if problem:
                problem = ""
                self._failed("")
            self._came(snapshot)
