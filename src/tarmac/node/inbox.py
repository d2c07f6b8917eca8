"""What an agent is asked from outside: by its engine's signals, by its runner, by a successor."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import FrameType

# An engine signals one process of a unit after the other.
_HEARS_WITHIN_S = 0.5
# After each program that ends well, as a shell does whose child was signalled first.
_HEARS_WITHIN_WELL_S = 0.02


class Asked(NamedTuple):
    """That an attempt is to end.

    Attributes:
        reason: Reason in words, for the attempt's record.
        is_told: Whether its program got a SIGTERM by the same.
        ends_unit: Whether nothing else of the engine's unit is to begin either.
        cause: ``stop``; ``timeout`` where the engine says that its unit's time is nearly over.
    """

    reason: str
    is_told: bool = False
    ends_unit: bool = False
    cause: str = "stop"


class Inbox:
    """Takes signals and requests, and wakes whoever waits for them.

    Made in the main thread; there is one in a process.

    Args:
        signals_all: Whether SIGTERM goes to each process of the unit.
        lifeline: A descriptor that ends with the process that started this agent, which is asked to
            end then; None where there is none.

    Attributes:
        asked: The first that was asked; None while nothing was.
    """

    def __init__(self, *, signals_all: bool, lifeline: int | None = None) -> None:
        self._signals_all = signals_all
        self._lifeline = lifeline
        self.asked: Asked | None = None
        self._woken, self._wakes = os.pipe()
        for descriptor in (self._woken, self._wakes):
            os.set_blocking(descriptor, False)
        # A signal that comes just before a wait ends that wait at once.
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, self._hear)

    def ask(
        self, reason: str, *, is_told: bool = False, ends_unit: bool = False, cause: str = "stop"
    ) -> None:
        """Ask for the end of what is at work; from any thread. What was asked before stays."""
        self.asked = self.asked or Asked(reason, is_told, ends_unit, cause)
        with contextlib.suppress(BlockingIOError):
            os.write(self._wakes, b"\0")

    def forget(self) -> None:
        """Forget what was asked of one attempt, before the unit's next one."""
        if self.asked is not None and not self.asked.ends_unit:
            self.asked = None

    def wait(self, patience_s: float, *descriptors: int) -> None:
        """Wait for a signal, a request, or one of some descriptors to become readable."""
        poll = select.poll()
        held = () if self._lifeline is None else (self._lifeline,)
        for descriptor in (self._woken, *held, *descriptors):
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(max(0.0, patience_s) * 1000):
            if descriptor == self._lifeline:
                # Nothing is ever written to it.
                self._lifeline = None
                self.ask("the process that started its agent is gone", ends_unit=True)
            elif descriptor == self._woken:
                with contextlib.suppress(BlockingIOError):
                    while os.read(self._woken, 4096):
                        pass

    def is_asked_within(self, patience_s: float) -> bool:
        """Wait until something is asked, for some seconds at most; return whether it was."""
        end = time.monotonic() + patience_s
        while self.asked is None and (left_s := end - time.monotonic()) > 0:
            self.wait(left_s)
        return self.asked is not None

    def hear_late(self, *, has_failed: bool) -> None:
        """Hear what has ended another process of the unit: this one may be signalled last."""
        if self._signals_all:
            self.is_asked_within(_HEARS_WITHIN_S if has_failed else _HEARS_WITHIN_WELL_S)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGUSR1:
            words = "its engine said that its end is near (SIGUSR1)"
            self.ask(words, ends_unit=True, cause="timeout")
        else:
            words = f"its engine ended it ({signal.Signals(number).name})"
            is_told = self._signals_all and number == signal.SIGTERM
            self.ask(words, is_told=is_told, ends_unit=True)
