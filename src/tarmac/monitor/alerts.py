"""User commands that run on events: ``tarmac top --on EVENT COMMAND``."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO

from tarmac.errors import TarmacError
from tarmac.monitor.events import Event, EventWatch
from tarmac.monitor.snapshot import Snapshot
from tarmac.processes import Child, spawn

# Longer commands are ended.
_TIMEOUT_S = 60.0
# At exit, running commands get this long to finish.
_PATIENCE_S = 10.0
# Further commands wait in a queue.
_MAX_AT_ONCE = 4


@dataclasses.dataclass(frozen=True)
class _Call:
    """A running command."""

    event: str
    child: Child
    ends_at: float


class Alerts:
    """A `Tap` that runs a shell command once for each event.

    The command gets the event as a line of JSON on its standard input. The tap does not wait for
    the command and discards its output. Snapshots show commands that fail or take over a minute.

    Args:
        rules: Pairs of an event of `EVENTS` and its command.
        idle_after_s: Seconds after which a held GPU counts as idle.
        clock: Monotonic clock in seconds, replaced in tests.
    """

    def __init__(
        self,
        rules: Sequence[tuple[str, str]],
        *,
        idle_after_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rules = tuple(rules)
        self._watch = EventWatch(idle_after_s)
        self._clock = clock
        self._waiting: collections.deque[tuple[str, str, str]] = collections.deque()
        self._calls: list[_Call] = []

    def take(self, snapshot: Snapshot) -> str:
        """Start the commands of new events; return the problems of commands that have ended."""
        for event in self._watch.new(snapshot):
            message = _told(event, snapshot)
            self._waiting.extend(
                (name, command, message) for name, command in self._rules if name == event.event
            )
        return "; ".join((*self._reap(), *self._begin()))

    def close(self) -> None:
        """Wait up to 10 seconds for the commands, and end the rest.

        Raises:
            TarmacError: A command failed or did not finish.
        """
        until = self._clock() + _PATIENCE_S
        problems = [*self._reap(), *self._begin()]
        while self._calls and self._clock() < until:
            self._calls[0].child.wait(until - self._clock())
            problems += [*self._reap(), *self._begin()]
        for call in self._calls:
            call.child.finish()
            problems.append(f"--on {call.event}: its command was not over")
        self._calls.clear()
        self._waiting.clear()
        if problems:
            raise TarmacError("; ".join(problems))

    def _begin(self) -> list[str]:
        problems = []
        while self._waiting and len(self._calls) < _MAX_AT_ONCE:
            event, command, message = self._waiting.popleft()
            try:
                with tempfile.TemporaryFile() as file:
                    file.write(message.encode())
                    file.seek(0)
                    child = _start(command, file)
            except (OSError, ValueError) as error:
                problems.append(f"--on {event}: its command cannot be started: {error}")
                continue
            self._calls.append(_Call(event, child, self._clock() + _TIMEOUT_S))
        return problems

    def _reap(self) -> list[str]:
        """Remove commands that have ended, end those that take too long, and return problems."""
        problems = []
        for call in tuple(self._calls):
            has_ended = call.child.has_ended()
            if not has_ended and self._clock() < call.ends_at:
                continue
            self._calls.remove(call)
            code = call.child.finish()
            # The command itself may hold a secret, such as a webhook's address.
            if not has_ended:
                problems.append(f"--on {call.event}: its command took over {_TIMEOUT_S:.0f} s")
            elif code != 0:
                problems.append(f"--on {call.event}: its command {_ending(code)}")
        return problems


def _start(command: str, stdin: IO[bytes]) -> Child:
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
        return spawn(
            ["sh", "-c", command],
            environment=os.environ,
            stdin=stdin,
            stdout=nowhere,
            stderr=nowhere,
        )


def _ending(code: int) -> str:
    if code < 0:
        # Only the first and the last real-time signal have names.
        names = {member.value: member.name for member in signal.Signals}
        return f"was ended by {names.get(-code, f'signal {-code}')}"
    return f"ended with {code}"


def _told(event: Event, snapshot: Snapshot) -> str:
    facts = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in event.facts.items()
    }
    line = {
        "schema_version": snapshot.schema_version,
        "event": event.event,
        "at": snapshot.at.isoformat(),
        "host": event.host,
        "subject": event.subject,
        "text": event.text,
        **facts,
    }
    return json.dumps(line) + "\n"
