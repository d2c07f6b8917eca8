"""Consumers of each snapshot besides the view: recordings, alerts, job maps."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from tarmac.errors import TarmacError
from tarmac.monitor.snapshot import Finding, Snapshot

if TYPE_CHECKING:
    from tarmac.monitor.feed import Feed

# The code of the finding for a failed tap.
OUTLET = "outlet"


class Tap(Protocol):
    """A consumer of each snapshot; its failure does not keep a snapshot from the view."""

    def take(self, snapshot: Snapshot) -> str:
        """Take a snapshot; return a problem, or an empty string."""
        ...

    def close(self) -> None:
        """Close the tap; further calls do nothing."""
        ...


class TappedFeed:
    """A feed that passes its snapshots to taps, and adds their problems as findings.

    Args:
        feed: Source of the snapshots.
        taps: Taps that get each snapshot, in order. Closed with the feed.
        tell: Callback for each problem of a tap, called once, for callers without a view.
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
        """Return the next snapshot, once it is due.

        Raises:
            StopIteration: The feed has ended.
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
        """Close the taps and the feed, even if one of them fails."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._feed.close)
            for tap in reversed(self._taps):
                stack.callback(tap.close)


def _taken(tap: Tap, snapshot: Snapshot) -> str:
    try:
        return tap.take(snapshot)
    except TarmacError as error:
        return error.message
