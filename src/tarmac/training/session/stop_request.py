"""The first SIGINT, SIGTERM or SIGHUP, or a program's own wish, as a request to stop."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

# A cluster that ends a job signals each of its processes, and so does what has started this one.
_ONE_WISH_S = 1.0


class StopRequest:
    """Turns the first SIGINT, SIGTERM or SIGHUP into a request to stop after the step under way.

    SIGHUP is that of a terminal that was closed or a connection that was lost; under nohup, which
    ignores it, it stays ignored.

    A second one acts as it did before, unless it comes within a second, also after the block: two
    senders may mean the same, and what was saved meanwhile is still to be concluded. Outside the
    main thread, where Python allows no signal handlers, no signal asks to stop. Called, it says
    whether something asks.

    Args:
        interrupted: Whether the program that trains asks it.

    Attributes:
        signal: The signal that came, or None.
    """

    def __init__(self, interrupted: Callable[[], bool] | None = None) -> None:
        self.signal: signal.Signals | None = None
        self._interrupted = interrupted
        self._received_at = 0.0
        self._previous: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            asking = [signal.SIGINT, signal.SIGTERM]
            if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
                asking.append(signal.SIGHUP)
            for number in asking:
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        # The handler gives way to those before it by itself, once a second has passed.
        if self.signal is None or time.monotonic() - self._received_at > _ONE_WISH_S:
            self._restore()

    def __bool__(self) -> bool:
        return self.signal is not None or (self._interrupted is not None and self._interrupted())

    def __call__(self) -> bool:
        """Return whether something asks to stop."""
        return bool(self)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.signal is None:
            self.signal, self._received_at = signal.Signals(number), now
        elif now - self._received_at > _ONE_WISH_S:
            self._restore()
            signal.raise_signal(number)

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
