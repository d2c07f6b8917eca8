"""Several machines in one view, each read by ``ssh HOST tarmac top --json --watch``.

A thread for each host reads its lines. A snapshot has the last line of each host, so a hung host
delays nothing. A lost host is shown as last seen, with the reason and the time. Its thread retries.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from subprocess import PIPE
from typing import IO

from tarmac.errors import RequestError
from tarmac.machine import LiveHost
from tarmac.monitor.plain import RecordingError, from_json
from tarmac.monitor.ranks import ranks_together
from tarmac.monitor.snapshot import HostSnapshot, Snapshot
from tarmac.processes import Child, spawn

# No password prompt; a timeout for a host that does not answer; detection of a lost connection.
_SSH = (
    *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"),
)

# A longer line is not a snapshot of one machine.
_MAX_BYTES = 2**26
# Maximum length of an error message from ssh or the host.
_MAX_SAID = 200
_ERROR = "error: "
# A host counts as silent after this many intervals, and at least this many seconds.
_SILENT_AFTER = 3
_SILENT_AFTER_S = 5.0
# Backoff between attempts to reach a host: first and largest.
_AGAIN_AFTER_S = 2.0
_AGAIN_AFTER_AT_MOST_S = 60.0
# Wait for the hosts before the first snapshot, for callers that take only one.
_PATIENCE_S = 20.0


class HostsFeed:
    """Snapshots of several machines.

    Args:
        hosts: Host names as ssh takes them; snapshots show these names.
        command: Program on the hosts, followed by further arguments of its ``top``. Default
            ``tarmac``.
        interval_s: Seconds between two snapshots. Default 1.
        is_patient: Whether the first snapshot waits until each host has answered or failed.
        patience_s: Longest wait for the first snapshot, in seconds, where ``is_patient``. Default
            20.
        silent_after_s: Seconds after which a host without new lines is shown as silent. Default:
            three intervals, but at least 5 seconds.

    Raises:
        RequestError: A host name is invalid.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        command: Sequence[str] = ("tarmac",),
        interval_s: float = 1.0,
        is_patient: bool = False,
        patience_s: float = _PATIENCE_S,
        silent_after_s: float | None = None,
    ) -> None:
        for host in hosts:
            if host.startswith("-") or not host.isprintable() or " " in host:
                raise RequestError(f"{host!r} is not a host name that ssh can use")
        program, *words = command
        there = [program, "top", "--json", "--watch", f"{interval_s:g}", *words]
        self._interval_s = interval_s
        self._is_patient, self._patience_s = is_patient, patience_s
        self._changed = threading.Condition()
        self._next_at: float | None = None
        silent_s = silent_after_s or max(_SILENT_AFTER_S, _SILENT_AFTER * interval_s)
        self._links = [_Link(host, shlex.join(there), silent_s, self._changed) for host in hosts]
        for link in self._links:
            link.start()

    def next(self) -> Snapshot:
        """Return the last state of each host, once the next snapshot is due."""
        if self._next_at is None:
            self._next_at = time.monotonic()
            if self._is_patient:
                with self._changed:
                    self._changed.wait_for(
                        lambda: all(link.is_known for link in self._links), self._patience_s
                    )
        else:
            time.sleep(max(0.0, self._next_at - time.monotonic()))
        self._next_at = max(self._next_at + self._interval_s, time.monotonic())
        with self._changed:
            seen = tuple(link.seen() for link in self._links)
        return Snapshot(at=datetime.now(UTC), hosts=ranks_together(seen))

    def close(self) -> None:
        """Close the connections to all hosts."""
        for link in self._links:
            link.leave()
        for link in self._links:
            link.join()


class _Link(threading.Thread):
    """The connection to one host: its last snapshot, and retries when the host is lost."""

    def __init__(
        self, host: str, there: str, silent_after_s: float, changed: threading.Condition
    ) -> None:
        super().__init__(name=f"watch-{host}", daemon=True)
        self._host = host
        self._command = (*_SSH, "--", host, there)
        self._silent_after_s = silent_after_s
        self._changed = changed
        self._left = threading.Event()
        self._child: Child | None = None
        self._last: HostSnapshot | None = None
        self._heard_at = 0.0
        self._problem = ""

    @property
    def is_known(self) -> bool:
        """Whether the host has answered or failed."""
        return self._last is not None or bool(self._problem)

    def seen(self) -> HostSnapshot:
        """Return the host as it was last seen."""
        if self._last is None:
            problem = self._problem or "not reached yet"
            return HostSnapshot(datetime.now(UTC), LiveHost(self._host), problem=problem)
        age_s = time.monotonic() - self._heard_at
        problem = self._problem
        if not problem and age_s > self._silent_after_s:
            problem = f"no answer for {age_s:.0f} s"
        if not problem:
            return self._last
        return dataclasses.replace(self._last, problem=problem, age_s=age_s)

    def run(self) -> None:
        """Read the host's lines until `leave` is called."""
        again_after_s = _AGAIN_AFTER_S
        while not self._left.is_set():
            has_answered, problem = self._listen()
            with self._changed:
                self._problem = problem
                self._changed.notify_all()
            again_after_s = (
                _AGAIN_AFTER_S if has_answered else min(again_after_s * 2, _AGAIN_AFTER_AT_MOST_S)
            )
            self._left.wait(again_after_s)

    def leave(self) -> None:
        """Close the connection; the thread ends soon."""
        self._left.set()
        with self._changed:
            if self._child is not None:
                self._child.signal(signal.SIGKILL)

    def _listen(self) -> tuple[bool, str]:
        """Read the host over ssh; return whether it answered, and why the connection ended."""
        with tempfile.TemporaryFile() as complaints:
            try:
                child = self._begin(complaints)
            except OSError as error:
                return False, f"ssh cannot be started: {error.strerror}"
            if child is None:
                return False, ""
            assert child.popen.stdout is not None
            try:
                has_answered, problem = self._read(child.popen.stdout)
            finally:
                with self._changed:
                    self._child = None
                child.popen.stdout.close()
                code = child.finish()
            return has_answered, problem or _last_words(complaints, code)

    def _begin(self, complaints: IO[bytes]) -> Child | None:
        """Start ssh; return None if the link was closed meanwhile."""
        with self._changed:
            if self._left.is_set():
                return None
            self._child = spawn(
                self._command, environment=os.environ, stdout=PIPE, stderr=complaints
            )
            return self._child

    def _read(self, lines: IO[bytes]) -> tuple[bool, str]:
        """Read snapshots until the output ends or a line is invalid."""
        has_answered = False
        while line := lines.readline(_MAX_BYTES):
            try:
                snapshot = from_json(json.loads(line))
            except RecordingError as error:
                return has_answered, error.message
            except (ValueError, RecursionError):
                if not line.endswith(b"\n"):
                    # The connection was cut off within this line.
                    break
                text = line[:_MAX_SAID].decode(errors="replace").strip()
                return has_answered, f"printed text that is not a snapshot: {text}"
            if not snapshot.hosts:
                continue
            here = dataclasses.replace(snapshot.hosts[0].host, name=self._host)
            with self._changed:
                self._last = dataclasses.replace(snapshot.hosts[0], host=here)
                self._heard_at = time.monotonic()
                self._problem = ""
                self._changed.notify_all()
            has_answered = True
        return has_answered, ""


def _last_words(complaints: IO[bytes], code: int) -> str:
    """Return the message of a failure: the error of Tarmac on the host, or the last line."""
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    if lines:
        return (errors or lines)[-1].strip()[:_MAX_SAID]
    return "the connection ended" if code == 0 else f"ssh ended with {code}, and printed nothing"
