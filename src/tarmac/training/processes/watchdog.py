"""Detection of the rank that hangs while the others wait for it."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from torch._C._distributed_c10d import PrefixStore, Store

# Called with a message, the hung ranks, and whether this rank should report the hang.
OnHang: TypeAlias = Callable[[str, Sequence[int], bool], None]

_LOOKS_PER_LIMIT = 10
_LONGEST_PAUSE_S = 2.0
_ENDS_WITHIN_S = 5.0


@dataclasses.dataclass(frozen=True)
class Heartbeat:
    """The latest progress that a rank has reported.

    Attributes:
        beats: Number of steps and evaluation batches done.
        waits: Whether the rank waits for other ranks.
        looks: Number of polls by the rank's watchdog; a stopped process makes none.
    """

    beats: int
    waits: bool
    looks: int

    def encode(self) -> str:
        """Return the heartbeat as text."""
        return f"{self.beats} {int(self.waits)} {self.looks}"

    @classmethod
    def decode(cls, text: str) -> Heartbeat:
        """Return the heartbeat of a text from `encode`."""
        beats, waits, looks = map(int, text.split())
        return cls(beats, bool(waits), looks)


def name_hung(
    heartbeats: Mapping[int, Heartbeat],
    still_s: Mapping[int, float],
    silent_s: Mapping[int, float],
    limit_s: float,
) -> tuple[str, list[int]] | None:
    """Return the hung ranks, in words and as numbers; None if no rank hangs.

    Args:
        heartbeats: Latest heartbeat of each rank, by rank.
        still_s: Seconds since each rank's last progress.
        silent_s: Seconds since each rank's watchdog last polled.
        limit_s: Longest time without progress, in seconds; above it a rank hangs.
    """
    stopped = [rank for rank in heartbeats if silent_s[rank] > limit_s]
    if stopped:
        longest = max(silent_s[rank] for rank in stopped)
        return f"{_ranks(stopped)} not answered for {longest:.0f} s", stopped
    still = [rank for rank in heartbeats if still_s[rank] > limit_s]
    busy = [rank for rank in still if not heartbeats[rank].waits]
    # A stopped process still polled a moment after its last step.
    mute = [rank for rank in busy if silent_s[rank] > limit_s / 2]
    if mute:
        longest = max(silent_s[rank] for rank in mute)
        return f"{_ranks(mute)} not answered for {longest:.0f} s", mute
    if busy:
        longest = max(still_s[rank] for rank in busy)
        return f"{_ranks(busy)} not finished a step for {longest:.0f} s", busy
    if len(still) == len(heartbeats):
        beats = ", ".join(
            f"rank {rank}: {heartbeat.beats}" for rank, heartbeat in heartbeats.items()
        )
        shortest = min(still_s.values())
        return f"all ranks have waited for each other for {shortest:.0f} s ({beats})", []
    return None


class Watchdog:
    """A watchdog that publishes this rank's heartbeats and watches the other ranks, in threads.

    Args:
        store: Store that all ranks of the training share.
        rank: Global rank of this process, from 0.
        world_size: Number of ranks in the training.
        limit_s: Seconds without progress after which a rank counts as hung.
        on_hang: Called with a message, the hung ranks, and whether this rank should report the
            hang.

    Attributes:
        waits: Whether this rank waits for other ranks now.
        stage: Function that returns a text about the current stage, to append to the message.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        world_size: int,
        limit_s: float,
        on_hang: OnHang,
    ) -> None:
        # Use a clone, as a blocked read in one thread would delay writes of the other.
        self._store = PrefixStore("watchdog", store.clone())  # type: ignore[attr-defined]  # undeclared
        self._rank = rank
        self._world_size = world_size
        self._limit_s = limit_s
        self._on_hang = on_hang
        self._beats = 0
        self._looks = 0
        self._done = threading.Event()
        self._has_answered = threading.Event()
        self.waits = False
        self.stage: Callable[[], str] = str
        self._tell()

    def heartbeat(self) -> None:
        """Record that this rank makes progress."""
        self._beats += 1

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Watch the other ranks within the context."""
        threads = [
            threading.Thread(target=look, name="tarmac-watchdog", daemon=True)
            for look in (self._look_around, self._look_at_store)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._done.set()
            for thread in threads:
                # A thread that waits for a store whose process is stopped may never end.
                thread.join(_ENDS_WITHIN_S)

    def _tell(self) -> None:
        self._looks += 1
        self._store.set(str(self._rank), Heartbeat(self._beats, self.waits, self._looks).encode())

    @property
    def _pause_s(self) -> float:
        return min(self._limit_s / _LOOKS_PER_LIMIT, _LONGEST_PAUSE_S)

    def _look_at_store(self) -> None:
        """Detect that the store's process is stopped, which blocks the polls of all ranks."""
        silent_s, before = 0.0, time.monotonic()
        while not self._done.wait(self._pause_s):
            now = time.monotonic()
            # Do not count time in which this process was suspended with all the others.
            silent_s, before = silent_s + min(now - before, 2 * self._pause_s), now
            if self._has_answered.is_set():
                self._has_answered.clear()
                silent_s = 0.0
            elif silent_s > self._limit_s:
                words = f"{_ranks([0])} not answered for {silent_s:.0f} s"
                self._on_hang(words, [0], self._rank == 1)
                return

    def _look_around(self) -> None:
        keys = [str(rank) for rank in range(self._world_size)]
        beat_at: dict[int, tuple[int, float]] = {}
        look_at: dict[int, tuple[int, float]] = {}
        while not self._done.wait(self._pause_s):
            try:
                self._tell()
                texts = self._store.multi_get(keys)
            except RuntimeError:
                # The store's process has ended, and so has the training.
                self._done.set()
                return
            self._has_answered.set()
            now = time.monotonic()
            heartbeats = {rank: Heartbeat.decode(text.decode()) for rank, text in enumerate(texts)}
            for rank, heartbeat in heartbeats.items():
                if beat_at.get(rank, (-1, 0.0))[0] != heartbeat.beats:
                    beat_at[rank] = (heartbeat.beats, now)
                if look_at.get(rank, (-1, 0.0))[0] != heartbeat.looks:
                    look_at[rank] = (heartbeat.looks, now)
            hung = name_hung(
                heartbeats,
                {rank: now - since for rank, (_, since) in beat_at.items()},
                {rank: now - since for rank, (_, since) in look_at.items()},
                self._limit_s,
            )
            if hung is not None:
                message, ranks = hung
                others = [rank for rank in range(self._world_size) if rank not in ranks]
                reports = self._rank == (others or ranks)[0]
                self._on_hang(message + self.stage(), ranks, reports)
                return


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} has"
    return f"ranks {', '.join(map(str, ranks))} have"
