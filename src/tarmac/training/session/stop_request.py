"""A request to stop, by the first SIGINT, SIGTERM or SIGHUP or by the program."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

# A cluster that ends a job signals each of its processes, and so does the parent process. Signals
# within this many seconds are one request.
_ONE_WISH_S = 1.0


class StopRequest:
    """A request to stop after the current step, by the first SIGINT, SIGTERM or SIGHUP.

    SIGHUP comes from a closed terminal or a lost connection. Under nohup, which ignores it, it
    stays ignored.

    A second signal is handled as before the context. Within one second of the first, it is ignored,
    even after the context: two senders may request the same stop, and the saved state must still be
    recorded. Outside the main thread Python allows no signal handlers, so signals request nothing.
    Calling the object returns whether a stop is requested.

    Args:
        interrupted: Function of the training program that returns whether to stop.

    Attributes:
        signal: The first signal received; None before.
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
        # Otherwise the handler restores the previous handlers itself, after a second.
        if self.signal is None or time.monotonic() - self._received_at > _ONE_WISH_S:
            self._restore()

    def __bool__(self) -> bool:
        return self.signal is not None or (self._interrupted is not None and self._interrupted())

    def __call__(self) -> bool:
        """Return whether a stop is requested."""
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
