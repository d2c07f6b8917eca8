"""Signals to the process that works on a run: end its tasks, or leave them to their engine."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

# Seconds in which a second Ctrl-C ends the tasks that the first one would leave to the engine.
_SECOND_WITHIN_S = 5.0


class Stopping:
    """A context that records signals, for a caller that polls a few times a second.

    On this machine, the first SIGINT or SIGTERM ends all tasks. If an engine queues the tasks,
    SIGTERM leaves them to the engine. SIGINT does so too, unless a second SIGINT arrives within
    five seconds and ends them. After a signal that ends the tasks, the earlier handlers are back.

    Args:
        outlives: Whether tasks go on without this process.
        warn: Called after the first SIGINT if tasks go on, to explain a second one.
    """

    def __init__(
        self,
        *,
        outlives: bool,
        warn: Callable[[], None] = lambda: None,
    ) -> None:
        self._outlives = outlives
        self._warn = warn
        self._before: Mapping[signal.Signals, Any] = {}
        self._num_interrupts = 0
        self._first_at: float | None = None
        self._is_terminated = False
        self.has_detached = False

    @property
    def came(self) -> bool:
        """Whether all tasks must end."""
        if not self._outlives:
            return bool(self._num_interrupts or self._is_terminated)
        return self._num_interrupts > 1

    def detaches(self) -> bool:
        """Return whether to leave queued and running tasks to the engine."""
        if not self._outlives or self.came:
            return False
        now = time.monotonic()
        if self._num_interrupts and self._first_at is None:
            self._first_at = now
            self._warn()
        is_over = self._first_at is not None and now >= self._first_at + _SECOND_WITHIN_S
        self.has_detached = self._is_terminated or is_over
        return self.has_detached

    def __enter__(self) -> Stopping:
        noted = {signal.SIGINT: self._interrupt, signal.SIGTERM: self._terminate}
        self._before = {name: signal.signal(name, note) for name, note in noted.items()}
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def _interrupt(self, *_: object) -> None:
        self._num_interrupts += 1
        if self.came:
            self.__exit__()

    def _terminate(self, *_: object) -> None:
        self._is_terminated = True
        if self.came:
            self.__exit__()
