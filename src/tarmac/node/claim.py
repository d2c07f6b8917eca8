"""The claim on an attempt: one file is claim, heartbeat and result.

The agent that creates the attempt's record exclusively holds the claim. Another agent leaves the
attempt alone while the holder is alive, and takes it over from a dead holder. Clocks of hosts
differ, so the heartbeat of an agent on another machine is a counter that grows.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.node.durable import create_file, replace_file
from tarmac.node.records import AttemptRecord, attempt_file, fence_file, read_attempt
from tarmac.processes import ProcessIdentity, identify

if TYPE_CHECKING:
    from tarmac.node.inbox import Inbox

# An agent without a heartbeat for this many intervals counts as dead.
_DEAD_AFTER_BEATS = 2.5
# A live agent notices a takeover of its attempt within this many intervals.
_SEEN_AFTER_BEATS = 1.5
_LOOK_EVERY_S = 1.0

_OVER = ("ended", "fenced")

# Time for a full or unreachable file system to recover before the result is lost.
_WRITTEN_WITHIN_S = 60.0

# Bounds that fit a record into one disk block, so that it can be overwritten on a full disk.
_MAX_PROBLEMS = 10
_MAX_LENGTH = 300


class NotOurs(Exception):  # noqa: N818 - no error
    """This agent may not run the attempt; the message says why."""


class Claim:
    """The claim of this agent on an attempt.

    Args:
        directory: Directory of the task, with its attempts' records.
        number: Number of the attempt, from 1.
        record: Content of the attempt's record file.

    Attributes:
        is_lost: Whether another agent has taken over the attempt. If so, write and keep nothing.
    """

    def __init__(self, directory: Path, number: int, record: AttemptRecord) -> None:
        self._directory = directory
        self._number = number
        self._record = record
        self._lock = threading.Lock()
        self.is_lost = False

    @property
    def restart(self) -> int:
        """Number of times that the engine has restarted the attempt's unit."""
        return self._record.restart

    def began(self, gpus: list[str]) -> None:
        """Mark the attempt as running, with its GPUs.

        Raises:
            OSError: The record cannot be written.
        """
        with self._lock:
            record = self._record._replace(state="began", gpus=gpus)
            if (self._record.state, [*self._record.gpus]) != (record.state, gpus):
                self._write(record, is_lasting=False)

    def beat(self) -> str:
        """Write a heartbeat; return why the attempt must end, or an empty string.

        Raises:
            OSError: The record cannot be read or written now.
        """
        fence = fence_file(self._directory, self._number)
        if fence.exists():
            words = fence.read_text(encoding="utf-8", errors="replace").strip()
            return words or "its runner abandoned it"
        with self._lock:
            if words := self._lost_to():
                return words
            record = self._record._replace(beat=self._record.beat + 1)
            self._write(record, is_lasting=False)
        return ""

    def end(self, **ending: Any) -> None:
        """Write the result, unless another agent has taken over the attempt.

        Args:
            **ending: Fields of `AttemptRecord`: outcome, cause, reason, exit_code, seconds,
                problems, bad_host, notes.

        Raises:
            OSError: The record cannot be written within 60 s.
        """
        problems, notes = (
            [*map(_shortened, ending.pop(name, ()))][:_MAX_PROBLEMS]
            for name in ("problems", "notes")
        )
        reason = _shortened(ending.pop("reason", ""))
        record = self._record._replace(
            state="ended",
            reason=reason,
            problems=problems,
            notes=notes,
            **ending,
        )
        give_up_at = time.monotonic() + _WRITTEN_WITHIN_S
        while True:
            try:
                with self._lock:
                    if not self._lost_to():
                        self._write(record)
            except OSError:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(_LOOK_EVERY_S)
            else:
                return

    def _lost_to(self) -> str:
        """Return a message if another agent has taken over the attempt, else an empty string."""
        holder = read_attempt(self._directory, self._number)
        if holder is not None and not _is_same(holder, self._record):
            self.is_lost = True
            return f"it was restarted on {holder.host}"
        return ""

    def _write(self, record: AttemptRecord, *, is_lasting: bool = True) -> None:
        path = attempt_file(self._directory, self._number)
        replace_file(path, record.to_bytes(), is_lasting=is_lasting)
        self._record = record


def take_claim(
    directory: Path,
    number: int,
    record: AttemptRecord,
    *,
    infers_restarts: bool,
    beat_s: float,
    inbox: Inbox,
) -> Claim:
    """Claim an attempt, or take it over from a dead agent.

    Args:
        directory: Directory of the task; created if it is missing.
        number: Number of the attempt, from 1.
        record: Record to write. Its `process` is filled in. Its `state` is ``claimed`` while an
            older agent may still have to notice the takeover.
        infers_restarts: Whether an agent that finds its own unit's record is the next restart.
        beat_s: Seconds between two heartbeats of any agent.
        inbox: Inbox whose requests stop the wait for another agent's heartbeat.

    Raises:
        NotOurs: The attempt must not run here.
        OSError: The record cannot be read or written.
    """
    record = record._replace(process=_this_process()._asdict())
    directory.mkdir(parents=True, exist_ok=True)
    if fence_file(directory, number).exists():
        raise NotOurs("its runner abandoned it")
    path = attempt_file(directory, number)
    while not create_file(path, record.to_bytes()):
        holder = read_attempt(directory, number)
        if holder is None and not path.exists():
            continue
        if holder is not None and infers_restarts and _is_same_unit(holder, record):
            record = record._replace(restart=holder.restart + 1)
        settle_s = _right_to(holder, record, beat_s)
        if settle_s is None:
            if not _stays(path, _DEAD_AFTER_BEATS * beat_s, inbox):
                _refuse_beating(holder, read_attempt(directory, number))
                continue
            settle_s = _SEEN_AFTER_BEATS * beat_s
        with _alone(path, beat_s, inbox):
            # Another agent may have taken over the record first.
            if read_attempt(directory, number) != holder:
                continue
            if settle_s > 0:
                record = record._replace(state="claimed")
            replace_file(path, record.to_bytes())
        claim = Claim(directory, number, record)
        if settle_s > 0:
            _settle(claim, settle_s, inbox)
        return claim
    return Claim(directory, number, record)


def _right_to(stored: AttemptRecord | None, ours: AttemptRecord, beat_s: float) -> float | None:
    """Return the seconds to wait after a takeover; None: check the holder's heartbeat first.

    Raises:
        NotOurs: The record must not be taken over.
    """
    if stored is None:
        # The record was just created and is still empty, or it is damaged.
        return None
    is_same_unit = _is_same_unit(stored, ours)
    is_newer = is_same_unit and ours.restart > stored.restart
    if is_same_unit and ours.restart < stored.restart:
        raise NotOurs(f"it was restarted on {stored.host}")
    if stored.state in _OVER:
        if stored.nonce != ours.nonce or (is_newer and stored.outcome == "interrupted"):
            return 0.0
        if stored.state == "fenced":
            raise NotOurs("its runner abandoned it before it began")
        raise NotOurs(f"it has ended already: {stored.outcome} on {stored.host}")
    lives = _lives_here(stored)
    if lives is None:
        return _SEEN_AFTER_BEATS * beat_s if is_newer else None
    if not lives:
        return 0.0
    if is_newer:
        return _SEEN_AFTER_BEATS * beat_s
    _refuse_living(stored)
    return None


def _refuse_beating(before: AttemptRecord | None, after: AttemptRecord | None) -> None:
    """Raise NotOurs if the same agent changed the record and still runs the attempt."""
    if before is None or after is None or not _is_same(before, after):
        return
    if after.state not in _OVER:
        _refuse_living(after)


def _refuse_living(record: AttemptRecord) -> None:
    unit = f" ({record.engine_id})" if record.engine_id else ""
    raise NotOurs(f"an agent on {record.host}{unit} is already running it")


def _lives_here(record: AttemptRecord) -> bool | None:
    """Return whether a record's agent is alive; None if it ran on another machine."""
    try:
        process = ProcessIdentity(**record.process)
    except TypeError:
        return None
    here = _this_process()
    if (process.boot_id, process.host) != (here.boot_id, here.host):
        return None
    return process.is_alive()


def _this_process() -> ProcessIdentity:
    return _identified(os.getpid())


@functools.lru_cache(maxsize=1)
def _identified(pid: int) -> ProcessIdentity:
    # Cached, because an agent with several attempts needs it for each.
    return identify(pid)


@contextlib.contextmanager
def _alone(path: Path, beat_s: float, inbox: Inbox) -> Iterator[None]:
    """Hold a lock file, so that one agent at a time takes over a record."""
    lock = path.with_suffix(".takeover")
    while not create_file(lock, os.urandom(8)):
        # A takeover takes a moment; a lock that stays belongs to a dead agent.
        if _stays(lock, _DEAD_AFTER_BEATS * beat_s, inbox):
            lock.unlink(missing_ok=True)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _stays(path: Path, patience_s: float, inbox: Inbox) -> bool:
    """Return whether a file stays unchanged for some seconds."""
    before = _content(path)
    end = time.monotonic() + patience_s
    while (left_s := end - time.monotonic()) > 0:
        if inbox.is_asked_within(min(left_s, _LOOK_EVERY_S)):
            raise NotOurs("it was cancelled before it started")
        if _content(path) != before:
            return False
    return True


def _settle(claim: Claim, patience_s: float, inbox: Inbox) -> None:
    """Wait until the older agent, if it is alive, has noticed the takeover."""
    end = time.monotonic() + patience_s
    while (left_s := end - time.monotonic()) > 0:
        if inbox.is_asked_within(min(left_s, _LOOK_EVERY_S)):
            break
    if words := claim.beat():
        raise NotOurs(words)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _is_same_unit(record: AttemptRecord, other: AttemptRecord) -> bool:
    # An agent that no engine has started belongs to no unit.
    is_in_unit = bool(record.engine_id)
    return is_in_unit and (record.nonce, record.engine_id) == (other.nonce, other.engine_id)


def _is_same(record: AttemptRecord, other: AttemptRecord) -> bool:
    """Whether the same agent wrote two records."""
    return (record.nonce, record.engine_id, record.restart, record.process) == (
        other.nonce,
        other.engine_id,
        other.restart,
        other.process,
    )


def _shortened(text: str) -> str:
    """Cut a text between words: a later redaction cannot recognize part of a secret."""
    if len(text) <= _MAX_LENGTH:
        return text
    return f"{text[: _MAX_LENGTH - 3].rpartition(' ')[0]} ..."
