"""The requests to an agent to end: from its engine's signals, its runner or a successor."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from types import FrameType
from typing import NamedTuple

# Wait for the engine's signal after a program fails: an engine signals the processes of a unit one
# after another.
_HEARS_WITHIN_S = 0.5
# The same wait after a program succeeds, as a shell does whose child was signalled first.
_HEARS_WITHIN_WELL_S = 0.02


class Asked(NamedTuple):
    """A request to end an attempt.

    Attributes:
        reason: Reason in words, for the attempt's record.
        is_told: Whether the engine has sent SIGTERM to the program too.
        ends_unit: Whether the request ends the whole unit, so that none of its attempts starts.
        cause: ``stop``, or ``timeout`` if the engine says that the unit's time is nearly over.
    """

    reason: str
    is_told: bool = False
    ends_unit: bool = False
    cause: str = "stop"


class Inbox:
    """The inbox for signals and requests, which wakes a waiting agent.

    A process has one inbox, created in the main thread.

    Args:
        signals_all: Whether the engine sends SIGTERM to each process of the unit.
        lifeline: File descriptor that reaches its end when the process that started this agent is
            gone; the agent must end then. None: no lifeline.

    Attributes:
        request: First request to end. None: no request yet.
    """

    def __init__(self, *, signals_all: bool, lifeline: int | None = None) -> None:
        self._signals_all = signals_all
        self._lifeline = lifeline
        self.request: Asked | None = None
        self._woken, self._wakes = os.pipe()
        for descriptor in (self._woken, self._wakes):
            os.set_blocking(descriptor, False)
        # With a wakeup descriptor, a signal just before a wait ends the wait at once.
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, self._on_answer)

    def ask(
        self, reason: str, *, is_told: bool = False, ends_unit: bool = False, cause: str = "stop"
    ) -> None:
        """Request the end of the current attempt, from any thread; an earlier request stays."""
        self.request = self.request or Asked(reason, is_told, ends_unit, cause)
        with contextlib.suppress(BlockingIOError):
            os.write(self._wakes, b"\0")

    def forget(self) -> None:
        """Drop a request to end one attempt before the unit's next attempt."""
        if self.request is not None and not self.request.ends_unit:
            self.request = None

    def wait(self, patience_s: float, *descriptors: int) -> None:
        """Wait for a signal, a request or a readable descriptor."""
        poll = select.poll()
        held = () if self._lifeline is None else (self._lifeline,)
        for descriptor in (self._woken, *held, *descriptors):
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(max(0.0, patience_s) * 1000):
            if descriptor == self._lifeline:
                # Readable means closed, because nothing is ever written to the lifeline.
                self._lifeline = None
                self.ask("the process that started its agent is gone", ends_unit=True)
            elif descriptor == self._woken:
                with contextlib.suppress(BlockingIOError):
                    while os.read(self._woken, 4096):
                        pass

    def is_asked_within(self, patience_s: float) -> bool:
        """Wait for a request for some seconds; return whether there is one."""
        end = time.monotonic() + patience_s
        while self.request is None and (left_s := end - time.monotonic()) > 0:
            self.wait(left_s)
        return self.request is not None

    def hear_late(self, *, has_failed: bool) -> None:
        """Wait for a signal that may have ended the program: the agent may be signalled last."""
        if self._signals_all:
            self.is_asked_within(_HEARS_WITHIN_S if has_failed else _HEARS_WITHIN_WELL_S)

    def _on_answer(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGUSR1:
            words = "its engine announced its end (SIGUSR1)"
            self.ask(words, ends_unit=True, cause="timeout")
        else:
            words = f"its engine ended it ({signal.Signals(number).name})"
            is_told = self._signals_all and number == signal.SIGTERM
            self.ask(words, is_told=is_told, ends_unit=True)
