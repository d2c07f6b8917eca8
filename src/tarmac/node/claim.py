"""The claim on an attempt: one file is claim, heartbeat and result.

Who creates the attempt's record exclusively has it. An agent that finds it taken leaves the attempt
to the other one as long as that lives, and takes over what a dead one left. Clocks of hosts differ,
so whether an agent of another machine lives is seen by its beat, which grows.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from tarmac.node.durable import create_file, replace_file
from tarmac.node.records import AttemptRecord, attempt_file, fence_file, read_attempt
from tarmac.processes import ProcessIdentity, identify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tarmac.node.inbox import Inbox

# An agent whose beat has not grown for so many intervals is dead, or as good as dead.
_DEAD_AFTER_BEATS = 2.5
# Within so many an agent that lives has seen that its attempt was taken over.
_SEEN_AFTER_BEATS = 1.5
_LOOK_EVERY_S = 1.0

_OVER = ("ended", "fenced")

# So long a file system that is full or away is given to take how an attempt ended.
_WRITTEN_WITHIN_S = 60.0

# A record fits into one block of a disk, so that it can be written over when that is full.
_MAX_PROBLEMS = 10
_MAX_LENGTH = 300


class NotOurs(Exception):  # noqa: N818 - that is no error
    """The attempt is not this agent's to run; says why in words."""


class Claim:
    """An attempt that is this agent's.

    Args:
        directory: Directory of the task, with its attempts' records.
        number: Number of the attempt, from 1.
        record: What its file holds.

    Attributes:
        is_lost: Whether another agent has it by now: nothing more is to be written or kept.
    """

    def __init__(self, directory: Path, number: int, record: AttemptRecord) -> None:
        self._directory = directory
        self._number = number
        self._record = record
        self._lock = threading.Lock()
        self.is_lost = False

    def began(self, gpus: list[str]) -> None:
        """Write that it is at work.

        Raises:
            OSError: That cannot be written.
        """
        with self._lock:
            record = self._record._replace(state="began", gpus=gpus)
            if (self._record.state, [*self._record.gpus]) != (record.state, gpus):
                self._write(record, is_lasting=False)

    def beat(self) -> str:
        """Show that this agent lives; return why the attempt is to end, empty while it is not.

        Raises:
            OSError: The record cannot be read or written now.
        """
        fence = fence_file(self._directory, self._number)
        if fence.exists():
            words = fence.read_text(encoding="utf-8", errors="replace").strip()
            return words or "its runner gave it up"
        with self._lock:
            if words := self._lost_to():
                return words
            record = self._record._replace(beat=self._record.beat + 1)
            self._write(record, is_lasting=False)
        return ""

    def end(self, **ending: Any) -> None:
        """Write how it ended; nothing where another agent has it by now.

        Args:
            **ending: Fields of `AttemptRecord`: outcome, cause, reason, exit_code, seconds,
                problems, bad_host, notes.

        Raises:
            OSError: That cannot be written.
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
        """Return who has taken it over, in words; empty where nobody has."""
        holder = read_attempt(self._directory, self._number)
        if holder is not None and not _is_same(holder, self._record):
            self.is_lost = True
            return f"it was begun again on {holder.host}"
        return ""

    def _write(self, record: AttemptRecord, *, is_lasting: bool = True) -> None:
        path = attempt_file(self._directory, self._number)
        replace_file(path, record.to_bytes(), is_lasting=is_lasting)
        self._record = record


def take_claim(
    directory: Path, number: int, record: AttemptRecord, *, beat_s: float, inbox: Inbox
) -> Claim:
    """Claim an attempt, or take it over from an agent that is dead.

    Args:
        directory: The task's; made where it is not there.
        number: Number of the attempt, from 1.
        record: What its file is to hold; its `process` is filled in, and it is only ``claimed``
            as long as another agent may have to see that.
        beat_s: Between two beats, of other agents as well, in seconds.
        inbox: Ends the waiting for another's beat.

    Raises:
        NotOurs: It is not to run here.
        OSError: The record cannot be read or written.
    """
    record = record._replace(process=_this_process()._asdict())
    directory.mkdir(parents=True, exist_ok=True)
    if fence_file(directory, number).exists():
        raise NotOurs("its runner gave it up")
    path = attempt_file(directory, number)
    while not create_file(path, record.to_bytes()):
        holder = read_attempt(directory, number)
        if holder is None and not path.exists():
            continue
        settle_s = _right_to(holder, record, beat_s)
        if settle_s is None:
            if not _stays(path, _DEAD_AFTER_BEATS * beat_s, inbox):
                _refuse_beating(holder, read_attempt(directory, number))
                continue
            settle_s = _SEEN_AFTER_BEATS * beat_s
        with _alone(path, beat_s, inbox):
            # Another newcomer may have been faster.
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


def _right_to(found: AttemptRecord | None, ours: AttemptRecord, beat_s: float) -> float | None:
    """Return for how long to wait after taking over a record; None to see first whether it beats.

    Raises:
        NotOurs: It is not to be taken over.
    """
    if found is None:
        # Just created and still empty, or damaged.
        return None
    is_same_unit = found.nonce == ours.nonce and found.engine_id == ours.engine_id
    is_newer = is_same_unit and ours.restart > found.restart
    if is_same_unit and ours.restart < found.restart:
        raise NotOurs(f"it was begun again on {found.host}")
    if found.state in _OVER:
        if found.nonce != ours.nonce or (is_newer and found.outcome == "interrupted"):
            return 0.0
        if found.state == "fenced":
            raise NotOurs("its runner gave it up before it began")
        raise NotOurs(f"it has ended already: {found.outcome} on {found.host}")
    lives = _lives_here(found)
    if lives is None:
        return _SEEN_AFTER_BEATS * beat_s if is_newer else None
    if not lives:
        return 0.0
    if is_newer:
        return _SEEN_AFTER_BEATS * beat_s
    _refuse_living(found)
    return None


def _refuse_beating(before: AttemptRecord | None, after: AttemptRecord | None) -> None:
    """Refuse an attempt whose record has changed, where its agent goes on."""
    if before is None or after is None or not _is_same(before, after):
        return
    if after.state not in _OVER:
        _refuse_living(after)


def _refuse_living(found: AttemptRecord) -> None:
    unit = f" ({found.engine_id})" if found.engine_id else ""
    raise NotOurs(f"an agent on {found.host}{unit} is at it")


def _lives_here(found: AttemptRecord) -> bool | None:
    """Return whether a record's agent lives; None where that was on another machine."""
    try:
        process = ProcessIdentity(**found.process)
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
    # An agent asks for each of its attempts.
    return identify(pid)


@contextlib.contextmanager
def _alone(path: Path, beat_s: float, inbox: Inbox) -> Iterator[None]:
    """Let one newcomer at a time take a record over."""
    lock = path.with_suffix(".takeover")
    while not create_file(lock, os.urandom(8)):
        # It takes a moment; one that stays is a dead one's.
        if _stays(lock, _DEAD_AFTER_BEATS * beat_s, inbox):
            lock.unlink(missing_ok=True)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _stays(path: Path, patience_s: float, inbox: Inbox) -> bool:
    """Return whether a file stays as it is for some seconds."""
    before = _content(path)
    end = time.monotonic() + patience_s
    while (left_s := end - time.monotonic()) > 0:
        if inbox.is_asked_within(min(left_s, _LOOK_EVERY_S)):
            raise NotOurs("it was to end before it began")
        if _content(path) != before:
            return False
    return True


def _settle(claim: Claim, patience_s: float, inbox: Inbox) -> None:
    """Wait until an older agent, if it lives, has seen that its attempt was taken over."""
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


def _is_same(one: AttemptRecord, other: AttemptRecord) -> bool:
    """Whether two records are one agent's."""
    return (one.nonce, one.engine_id, one.restart, one.process) == (
        other.nonce,
        other.engine_id,
        other.restart,
        other.process,
    )


def _shortened(text: str) -> str:
    """Return the first words of a text; none is cut, for nothing masks half of a secret later."""
    if len(text) <= _MAX_LENGTH:
        return text
    return f"{text[: _MAX_LENGTH - 3].rpartition(' ')[0]} ..."
