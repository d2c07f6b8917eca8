"""The first SIGINT or SIGTERM as a request to stop."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["StopRequest"]


class StopRequest:
    """Turns the first SIGINT or SIGTERM into a request to stop after the step under way.

    A second one acts as it did before. Outside the main thread, where Python allows no signal
    handlers, it never asks to stop.

    Attributes:
        signal: The signal that came, or None.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._previous: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def __bool__(self) -> bool:
        return self.signal is not None

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
