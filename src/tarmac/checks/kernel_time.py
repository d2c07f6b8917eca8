"""The age of a line in a kernel's log, from the time formats of the programs that print it.

Example:
    >>> clock = Clock(now=datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC), uptime_s=900.0)
    >>> read_age("[  660.000000] NVRM: ...", clock)
    240.0
    >>> age_in_words(240.0)
    '4 min ago'
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

from pydantic import AwareDatetime, BaseModel, ConfigDict

# Seconds that a line may be in the future, as clocks may have been set meanwhile. A larger
# difference means another boot or another machine.
_FORGIVEN_S = 3600.0

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# dmesg: with -x the facility and the level come first, with -r the level, 0 to 7, in <>.
_SINCE_START = re.compile(r"^(?:<\d+>|\w+ *:\w+ *: )?\[ *(\d+\.\d+)\]")
# /dev/kmsg: level, sequence number, microseconds.
_DEVICE = re.compile(r"^\d+,\d+,(\d+),")
# journalctl -o short-iso, dmesg --time-format iso, syslog by RFC 5424.
_ISO = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?:Z|[+-]\d\d:?\d\d)?)\s")
# dmesg -T.
_LONG = re.compile(r"^\[\w{3} (\w{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})\]")
# syslog by RFC 3164, journalctl -o short.
_SHORT = re.compile(r"^(?:<\d+>)?(\w{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)\s")


class Clock(BaseModel):
    """The time at which a log was read.

    Attributes:
        now: Date and time of the reading, with its time zone.
        uptime_s: Uptime of the machine at the reading, in seconds, without time in suspend.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    now: AwareDatetime
    uptime_s: float


def read_age(line: str, clock: Clock) -> float | None:
    """Return the age of a line in seconds; None where the line has no time.

    A time without a zone is in this machine's zone. A time without a year is of the last twelve
    months.
    """
    started = _SINCE_START.match(line) or _DEVICE.match(line)
    if started:
        seconds = float(started[1]) * (1 if "." in started[1] else 1e-6)
        return _sound(clock.uptime_s - seconds)
    written = _read_time(line, clock.now)
    return None if written is None else _sound((clock.now - written).total_seconds())


def _sound(age_s: float) -> float | None:
    return None if age_s < -_FORGIVEN_S else max(age_s, 0.0)


def _read_time(line: str, now: datetime.datetime) -> datetime.datetime | None:
    try:
        if match := _ISO.match(line):
            written = datetime.datetime.fromisoformat(match[1])
            return written if written.tzinfo else written.astimezone()
        if match := _LONG.match(line):
            month, *numbers, year = match.groups()
            return _local(year, month, numbers)
        if match := _SHORT.match(line):
            month, *numbers = match.groups()
            year = now.astimezone().year
            written = _local(year, month, numbers)
            is_last_years = (written - now).total_seconds() > _FORGIVEN_S
            return _local(year - 1, month, numbers) if is_last_years else written
    except (ValueError, OverflowError):
        return None
    return None


def _local(year: int | str, month: str, numbers: Sequence[str]) -> datetime.datetime:
    """Return the time in this machine's zone; ``numbers`` are day, hour, minute and second."""
    day, hour, minute, second = map(int, numbers)
    naive = datetime.datetime(int(year), _MONTHS.index(month) + 1, day, hour, minute, second)
    return naive.astimezone()


def age_in_words(age_s: float) -> str:
    """Return an age in words: ``4 min ago``."""
    if age_s < 60:
        return f"{age_s:.0f} s ago"
    if age_s < 3600:
        return f"{age_s // 60:.0f} min ago"
    if age_s < 48 * 3600:
        return f"{age_s // 3600:.0f} h ago"
    return f"{age_s // 86400:.0f} days ago"
