"""Reads this machine's kernel log, and keeps the lines that matter."""

from __future__ import annotations

import dataclasses
import datetime
import os
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tarmac.checks.kernel_log import ALL_GPUS, MARKS, KernelEvent, read_event, read_recovery
from tarmac.checks.kernel_time import Clock, read_age

# Operators check Xids once a shift. An error that has not come back for a day is no reason to
# refuse work.
DEFAULT_HOURS = 24.0

_LIMIT_S = 5.0

# Lines kept of each error of each card, and of the driver's other messages. Separate limits, so
# that a flood of one error hides no other.
_KEPT_EACH, _KEPT_OTHER = 20, 50
_LONGEST = 1024

# Marks of lines that other rules read, or that show that an error is over.
_OTHER_MARKS = ("NVRM: ", "nvidia-nvlink: ")

# The first line of a log that reaches back to the boot was written within these seconds.
_FIRST_S = 60.0

_COMMANDS = (
    ("dmesg",),
    ("journalctl", "-k", "-b", "-o", "short-iso", "--no-pager", "--no-hostname", "-q"),
)

# The UEFI variable of Secure Boot: four bytes of attributes, then 0 or 1.
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


class KernelLog(BaseModel):
    """How the kernel's log was read.

    Attributes:
        source: Program that printed the log: ``dmesg`` or ``journalctl``; None where neither did.
        problem: Reason why the log could not be read, or not far enough back; None without one.
        clock: Time of the reading; None where the log was not read.
        hours: Age up to which a transient error was looked for, in hours.
        secure_boot: Whether Secure Boot is on; None where the firmware does not say.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str | None = None
    problem: str | None = None
    clock: Clock | None = None
    hours: float = DEFAULT_HOURS
    secure_boot: bool | None = None


def read_kernel_log(
    hours: float = DEFAULT_HOURS, root: Path = Path("/")
) -> tuple[tuple[str, ...], KernelLog]:
    """Return the lines that matter since the boot, and how they were read.

    The kernel's own buffer is read first. The journal is read where the buffer may not be read, or
    has already lost lines of the last ``hours``.

    Args:
        hours: Age up to which transient errors count, in hours. Default 24.
        root: Directory that has ``sys``; for tests. Default: ``/``.
    """
    problems = []
    best: tuple[tuple[str, ...], KernelLog] | None = None
    for command in _COMMANDS:
        text, problem = _output(command)
        clock = Clock(
            now=datetime.datetime.now(datetime.UTC),
            uptime_s=time.clock_gettime(time.CLOCK_MONOTONIC),
        )
        if problem is not None:
            problems.append(problem)
            continue
        missed = _missed_hours(text, clock, hours)
        shortage = None if missed is None else f"{command[0]} covers only the last {missed:.1f} h"
        log = KernelLog(
            source=command[0],
            problem=shortage,
            clock=clock,
            hours=hours,
            secure_boot=_secure_boot(root),
        )
        best = best or (tuple(select_lines(_marked(text), clock, hours)), log)
        if shortage is None:
            return tuple(select_lines(_marked(text), clock, hours)), log
    if best is not None:
        return best
    return (), KernelLog(problem="; ".join(problems), hours=hours, secure_boot=_secure_boot(root))


def _output(command: tuple[str, ...]) -> tuple[str, str | None]:
    """Return a program's output, and the reason why it is no log; None where it is one."""
    name = command[0]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
            env=os.environ | {"LC_ALL": "C"},
        )
    except FileNotFoundError:
        return "", f"{name} is not installed"
    except subprocess.TimeoutExpired:
        return "", f"{name} gave no answer in {_LIMIT_S:g} s"
    except OSError as error:
        return "", f"{name}: {error.strerror}"
    if done.stdout.strip():
        return done.stdout, None
    # A running kernel always has messages, so an empty output is no answer.
    message = (done.stderr.strip().splitlines() or [f"{name} printed nothing"])[-1]
    return "", message if message.startswith(name) else f"{name}: {message}"


def _missed_hours(text: str, clock: Clock, hours: float) -> float | None:
    """Return the hours that a log reaches back if too few; None where they are enough."""
    wanted_s = min(hours * 3600, clock.uptime_s - _FIRST_S)
    reached_s = read_age(text[: text.find("\n")], clock)
    if reached_s is None or reached_s >= wanted_s:
        return None
    return reached_s / 3600


def _secure_boot(root: Path) -> bool | None:
    try:
        value = (root / _SECURE_BOOT).read_bytes()
    except OSError:
        return None
    return value[-1] == 1 if len(value) == 5 else None


def _marked(text: str) -> Iterator[str]:
    """Yield the lines of a log that may matter, in order.

    Each mark is searched in the whole text, which takes a tenth of the time of a search by line.
    """
    starts = set()
    for mark in (*MARKS, *_OTHER_MARKS):
        at = text.find(mark)
        while at >= 0:
            starts.add(text.rfind("\n", 0, at) + 1)
            stop = text.find("\n", at)
            at = text.find(mark, stop) if stop >= 0 else -1
    for start in sorted(starts):
        stop = text.find("\n", start)
        yield text[start : stop if stop >= 0 else None]


@dataclasses.dataclass(frozen=True)
class _Kept:
    order: int
    line: str
    event: KernelEvent | None

    def is_over(self, recovered: str) -> bool:
        """Return whether a reset of one GPU, or of all, has ended the line's error."""
        if self.event is None or not self.event.is_reset:
            return False
        return recovered in {ALL_GPUS, self.event.address}


def select_lines(lines: Iterable[str], clock: Clock, hours: float) -> list[str]:
    """Return the lines to keep, in order: errors that still count, and the driver's last messages.

    A transient error counts for some hours. An error that a reset ends counts until its GPU was
    reset.

    Args:
        lines: Log lines since a single boot, oldest first.
        clock: Time at which the lines were read.
        hours: Age up to which a transient error counts, in hours.
    """
    kept: dict[tuple[object, ...], deque[_Kept]] = {}
    age_s = None
    for order, line in enumerate(lines):
        # The second line of a message has no time of its own.
        age_s = read_age(line, clock) if line[:1] not in (" ", "\t") else age_s
        recovered = read_recovery(line)
        if recovered is not None:
            for key, rest in kept.items():
                kept[key] = deque(
                    (entry for entry in rest if not entry.is_over(recovered)), maxlen=rest.maxlen
                )
            continue
        event = read_event(line)
        if event is None:
            key, most = ("other",), _KEPT_OTHER
        elif event.passes and age_s is not None and age_s > hours * 3600:
            continue
        else:
            key, most = (event.code, event.address, event.number), _KEPT_EACH
        kept.setdefault(key, deque(maxlen=most)).append(_Kept(order, line[:_LONGEST], event))
    every = sorted((entry for rest in kept.values() for entry in rest), key=lambda line: line.order)
    return [entry.line for entry in every]
