"""What was asked of the server, and what it does wrong on purpose."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable
from typing import Literal, NamedTuple

# How watches of an earlier generation end: cut between two events or inside one, or regularly.
WatchEnd = Literal["cut", "inside", "ended"]


class Request(NamedTuple):
    """One request, as the server counts it.

    Attributes:
        verb: As RBAC calls it: ``get``, ``list``, ``watch``, ``create``, ``delete``, …
        resource: ``jobs``, ``pods/log``, …
        path: Of the URL, with its query.
        user: Who asked.
    """

    verb: str
    resource: str
    path: str
    user: str


class Requests:
    """The requests of a test's user; those of nodes and of the administrator are not counted."""

    def __init__(self) -> None:
        self.entries: list[Request] = []

    def count(self, verb: str = "", resource: str = "") -> int:
        """Return how many there were."""
        return sum(
            verb in ("", entry.verb) and resource in ("", entry.resource)
            for entry in list(self.entries)
        )

    def clear(self) -> None:
        """Count from nought again."""
        self.entries.clear()


@dataclasses.dataclass
class Fault:
    """What the server does instead of answering as it should.

    Attributes:
        kind: ``answer``, ``silence``, ``drop-before`` or ``drop-after``.
        times: How often it does it still.
        verb: For requests of this verb only.
        resource: For requests of this resource only.
        code: Of the answer.
        retry_after_s: What the answer says of it.
    """

    kind: str
    times: int = 1
    verb: str = ""
    resource: str = ""
    code: int = 500
    retry_after_s: int | None = None
    message: str = ""


class Faults:
    """What goes wrong, for requests of the test's user only.

    All end with ``clear``, which also lets go what was held.

    Attributes:
        num_taken: So many requests went wrong so far.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []
        self.released = threading.Event()
        self.num_taken = 0
        self.is_frozen = False
        self.watch_generation = 0
        self.watches_end: WatchEnd = "cut"
        self.on_cut: Callable[[], None] = lambda: None

    def answer(
        self,
        code: int,
        times: int = 1,
        *,
        verb: str = "",
        resource: str = "",
        retry_after_s: int | None = None,
        message: str = "",
    ) -> None:
        """Answer the next requests with an error: 401, 403, 410, 429, 500, 503, 504, …"""
        self._add(Fault("answer", times, verb, resource, code, retry_after_s, message))

    def silence(self, times: int = 1, *, verb: str = "", resource: str = "") -> None:
        """Take the next requests and say nothing, until ``clear``."""
        self._add(Fault("silence", times, verb, resource))

    def drop(
        self, times: int = 1, *, verb: str = "", resource: str = "", is_done: bool = True
    ) -> None:
        """Close the connection of the next requests without an answer.

        Args:
            times: How many.
            verb: Of which.
            resource: Of which.
            is_done: Whether what they asked for is done all the same.
        """
        self._add(Fault("drop-after" if is_done else "drop-before", times, verb, resource))

    def cut_watches(self, *, inside_event: bool = False) -> None:
        """Close the connections of all watches, in the middle.

        Args:
            inside_event: Whether only half of the next event is sent first.
        """
        self._end_watches("inside" if inside_event else "cut")

    def end_watches(self) -> None:
        """End all watches as a server does whose time for them is over."""
        self._end_watches("ended")

    def freeze_watches(self) -> None:
        """Send nothing more on the open watches, nor on new ones, until ``clear``."""
        self.is_frozen = True

    def clear(self) -> None:
        """Do all as it should be done, from now on."""
        with self._lock:
            self._waiting.clear()
        self.is_frozen = False
        self.released.set()
        self.released = threading.Event()
        self.on_cut()

    def next(self, verb: str, resource: str) -> Fault | None:
        """Return what goes wrong with a request, which counts as done."""
        with self._lock:
            for fault in self._waiting:
                if fault.verb in ("", verb) and re.fullmatch(fault.resource or ".*", resource):
                    fault.times -= 1
                    self.num_taken += 1
                    if fault.times <= 0:
                        self._waiting.remove(fault)
                    return fault
        return None

    def _end_watches(self, how: WatchEnd) -> None:
        self.watches_end = how
        self.watch_generation += 1
        self.on_cut()

    def _add(self, fault: Fault) -> None:
        with self._lock:
            self._waiting.append(fault)
