"""New errors of GPUs, from the kernel's log and from the events of NVIDIA's driver.

The log has more details of an error than the driver's events, but few users may read it; all users
get the events. An error that is in both is reported once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.checks.kernel_log import KernelEvent, explain_xid, read_event
from tarmac.checks.kernel_time import Clock, read_age
from tarmac.machine import Asker, NoAnswerError

if TYPE_CHECKING:
    from tarmac.machine import XidSeen

# Time within which a line of the log and an event of the driver may be the same error.
_SAME = timedelta(seconds=60)

_RECORD_BYTES = 8192
# Limit of each reading, as a broken card may fill the log faster than it is read.
_MAX_RECORDS = 10_000

_JOURNAL_EVERY_S = 30.0
_JOURNAL_LIMIT_S = 20.0
_JOURNAL = ("journalctl", "-k", "-b", "-o", "short-iso", "--no-pager", "--no-hostname", "-q")


@dataclasses.dataclass(frozen=True)
class KernelNews:
    """A new error of a GPU or of a program.

    Attributes:
        code: Code of the failure in the catalogue.
        words: Description of the error, such as ``Xid 94, contained memory error``.
        action: Immediate action for this number; empty where the code alone tells what to do.
        at: Time of the event, in UTC.
        number: Number of the Xid or SXid; None for other kinds of events.
        address: PCI address of the card, without its function, such as ``0000:9c:00``.
        gpu_uuid: UUID of the GPU, from an event of the driver; None for a line of the log.
        pid: ID of the affected process, as the machine numbers it.
        process: Name of the affected process; None where the log has none.
    """

    code: str
    words: str
    action: str
    at: datetime
    number: int | None = None
    address: str | None = None
    gpu_uuid: str | None = None
    pid: int | None = None
    process: str | None = None


class KernelWatch:
    """A watch of the kernel's log, from its creation on; its methods never wait.

    It reads the log itself where this user may, else the journal every 30 s.

    Args:
        device: Device of the kernel's log; for tests. Default: ``/dev/kmsg``.
        journal: Returns the journal's text since a time; for tests.
        clock: Returns monotonic seconds; for tests.
    """

    def __init__(
        self,
        device: Path = Path("/dev/kmsg"),
        journal: Callable[[datetime], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._log = _open_at_end(device)
        self._journal = None if self._log is not None else Asker(journal or _read_journal)
        self._asked_at = clock()
        self._since = datetime.now(UTC)
        self._told: list[KernelNews] = []

    def new(self, xids: Sequence[XidSeen] = ()) -> tuple[KernelNews, ...]:
        """Return the errors since the last call.

        Args:
            xids: Events of the driver that `LiveReader.new_xids` returned meanwhile.
        """
        log = self._read_log() if self._log is not None else self._read_journal()
        clock = Clock(now=datetime.now(UTC), uptime_s=time.clock_gettime(time.CLOCK_MONOTONIC))
        events = [_from_line(line, clock) for line in log] + [_from_event(xid) for xid in xids]
        news: list[KernelNews] = []
        for event in events:
            # The log's entries come first, as they have more details.
            if event and not any(_is_same(event, other) for other in (*self._told, *news)):
                news.append(event)
        self._told = [event for event in (*self._told, *news) if clock.now - event.at < _SAME]
        return tuple(news)

    def close(self) -> None:
        """Close the log or the journal."""
        if self._log is not None:
            os.close(self._log)
            self._log = None
        elif self._journal is not None:
            self._journal.close()
            self._journal = None

    def _read_log(self) -> list[str]:
        lines: list[str] = []
        assert self._log is not None
        for _ in range(_MAX_RECORDS):
            try:
                record = os.read(self._log, _RECORD_BYTES)
            except BrokenPipeError:
                # Records that were not read in time are overwritten; continue with the next.
                continue
            except OSError:
                break
            if not record:
                break
            lines += record.decode(errors="replace").splitlines()
        return lines

    def _read_journal(self) -> list[str]:
        if self._journal is None:
            return []
        lines: list[str] = []
        if self._journal.is_open:
            with contextlib.suppress(NoAnswerError):
                lines = self._journal.answer(0.0).splitlines()
        elif self._clock() - self._asked_at >= _JOURNAL_EVERY_S:
            self._asked_at = self._clock()
            self._journal.ask(self._since)
            # One second earlier, as the journal counts in whole seconds.
            self._since = datetime.now(UTC) - timedelta(seconds=1)
        return lines


def _open_at_end(device: Path) -> int | None:
    try:
        log = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    os.lseek(log, 0, os.SEEK_END)
    return log


def _read_journal(since: datetime) -> str:
    """Return the journal's text since a time; empty where it may not be read."""
    try:
        done = subprocess.run(
            (*_JOURNAL, f"--since=@{since.timestamp():.0f}"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_JOURNAL_LIMIT_S,
            check=False,
            env=os.environ | {"LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _from_line(line: str, clock: Clock) -> KernelNews | None:
    event = read_event(line)
    if event is None:
        return None
    age_s = read_age(line, clock)
    at = clock.now - timedelta(seconds=age_s or 0.0)
    return _told_of(event, at)


def _from_event(xid: XidSeen) -> KernelNews | None:
    address = (xid.pci_address or "").rpartition(".")[0] or None
    event = explain_xid(xid.number, address)
    if event is None:
        return None
    return dataclasses.replace(_told_of(event, xid.at), gpu_uuid=xid.gpu_uuid)


def _told_of(event: KernelEvent, at: datetime) -> KernelNews:
    return KernelNews(
        code=event.code,
        words=event.words,
        action=event.action,
        at=at,
        number=event.number,
        address=event.address,
        pid=event.pid,
        process=event.process,
    )


def _is_same(news: KernelNews, other: KernelNews) -> bool:
    """Return whether two entries report the same error, or its repetition."""
    if abs(news.at - other.at) >= _SAME or news.number != other.number:
        return False
    if news.number is None:
        return (news.code, news.address, news.pid) == (other.code, other.address, other.pid)
    return news.address == other.address or None in (news.address, other.address)
