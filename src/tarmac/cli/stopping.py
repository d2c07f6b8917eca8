"""What signals mean to who works on a run: end its tasks, or leave them to their engine."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Within this, a second Ctrl-C ends what the first one would have left to the engine.
_SECOND_WITHIN_S = 5.0


class Stopping:
    """Notes signals while it is entered, for who asks a few times a second.

    On this machine the first SIGINT or SIGTERM ends all tasks. Where an engine queues them, SIGTERM
    leaves them to it, and so does SIGINT, unless a second one comes within five seconds. One more
    acts as it did before.

    Args:
        outlives: Whether tasks go on without this process.
        warn: Called after the first SIGINT there, to say what a second one does.
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
        """Whether all tasks are to end."""
        if not self._outlives:
            return bool(self._num_interrupts or self._is_terminated)
        return self._num_interrupts > 1

    def detaches(self) -> bool:
        """Whether to leave what is queued and runs to the engine."""
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
