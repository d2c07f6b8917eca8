"""What takes each snapshot on its way to a view: recordings, alerts, job maps."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Protocol

from tarmac.errors import TarmacError
from tarmac.monitor.snapshot import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tarmac.monitor.feed import Feed
    from tarmac.monitor.snapshot import Snapshot

# The code of a finding that says that a tap could not do its work.
OUTLET = "outlet"


class Tap(Protocol):
    """Takes each snapshot, and never keeps it from being shown."""

    def take(self, snapshot: Snapshot) -> str:
        """Take a snapshot; return what is wrong, or nothing."""
        ...

    def close(self) -> None:
        """End it; nothing happens where that was done before."""
        ...


class TappedFeed:
    """A feed whose snapshots pass some taps; what is wrong with those is shown with them.

    Args:
        feed: What gives the snapshots.
        taps: Each is given all of them, in order, and closed with the feed.
        tell: Is told of each trouble of theirs, once, for whoever sees no snapshot.
    """

    def __init__(
        self, feed: Feed, taps: Sequence[Tap], tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._feed = feed
        self._taps = tuple(taps)
        self._tell = tell
        self._told: set[str] = set()

    @property
    def has_failed(self) -> bool:
        """Whether a tap could not take a snapshot."""
        return bool(self._told)

    def next(self) -> Snapshot:
        """Return the next snapshot, once it is time for it.

        Raises:
            StopIteration: There is none any more.
        """
        snapshot = self._feed.next()
        problems = [problem for tap in self._taps if (problem := _taken(tap, snapshot))]
        if not problems or not snapshot.hosts:
            return snapshot
        for problem in problems:
            if problem not in self._told:
                self._told.add(problem)
                self._tell(problem)
        first, *others = snapshot.hosts
        findings = tuple(
            Finding(OUTLET, "warning", problem, at=snapshot.at) for problem in problems
        )
        host = dataclasses.replace(first, findings=(*first.findings, *findings))
        return dataclasses.replace(snapshot, hosts=(host, *others))

    def close(self) -> None:
        """Close the taps and the feed, all of them whatever one says."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._feed.close)
            for tap in reversed(self._taps):
                stack.callback(tap.close)


def _taken(tap: Tap, snapshot: Snapshot) -> str:
    try:
        return tap.take(snapshot)
    except TarmacError as error:
        return error.message
