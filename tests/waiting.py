"""The limits of what tests wait for, longer on a busy machine; the only place where tests sleep.

A limit is for an idle machine: `wait_until(log.exists, "the log")` waits 30 s there, and 60 s
where two threads want each core. `TARMAC_TEST_PATIENCE=3` makes every limit three times as long.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

# Long enough for a process with PyTorch to start; a test that fails waits no longer.
WAIT_S = 30.0
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.005, 0.1
# A limit longer than this does not tell a slow machine from a deadlock any more.
MAX_PATIENCE = 20.0
LOAD = Path("/proc/loadavg")

_Value = TypeVar("_Value")


def patience() -> float:
    """Return the factor of every limit now: runnable threads per core, 1 to `MAX_PATIENCE`."""
    last_minute, _, _, threads, _ = LOAD.read_text(encoding="ascii").split()
    # The average lags behind by a minute; the count of this moment includes this thread.
    wanted = max(float(last_minute), int(threads.split("/")[0]) - 1)
    busy = wanted / len(os.sched_getaffinity(0))
    return min(max(1.0, busy), MAX_PATIENCE) * float(os.environ.get("TARMAC_TEST_PATIENCE", "1"))


def limit_s(seconds: float) -> float:
    """Return a limit for this machine now, in seconds; `seconds` is right for an idle one."""
    return seconds * patience()


def wait_until(
    predicate: Callable[[], _Value],
    what: str,
    *,
    seconds: float = WAIT_S,
    unless: Callable[[], object] = lambda: None,
) -> _Value:
    """Return what `predicate` returns as soon as this is true.

    Args:
        predicate: Is called again and again, at first after 5 ms, later each 100 ms.
        what: Names what is awaited in the message of a failure.
        seconds: The limit on an idle machine. Default 30.
        unless: A reason to fail at once, such as `process.poll` of a process that must not end; any
            value but None is one.

    Raises:
        AssertionError: At the limit, or for a reason of `unless`.
    """
    for interval_s in _intervals(what, seconds):
        if value := predicate():
            return value
        _fail_if(unless, what)
        time.sleep(interval_s)
    raise AssertionError  # The intervals end with a message of their own.


async def wait_until_async(
    predicate: Callable[[], _Value],
    what: str,
    *,
    seconds: float = WAIT_S,
    unless: Callable[[], object] = lambda: None,
) -> _Value:
    """Do as `wait_until` does, and let other tasks of the event loop run meanwhile."""
    for interval_s in _intervals(what, seconds):
        if value := predicate():
            return value
        _fail_if(unless, what)
        await asyncio.sleep(interval_s)
    raise AssertionError  # The intervals end with a message of their own.


def _intervals(what: str, seconds: float) -> Iterator[float]:
    started, interval_s = time.monotonic(), MIN_INTERVAL_S
    while True:
        yield interval_s
        interval_s = min(1.5 * interval_s, MAX_INTERVAL_S)
        waited_s = time.monotonic() - started
        # Read each time: a machine that became busy meanwhile gets the longer limit.
        if waited_s > limit_s(seconds):
            raise AssertionError(f"waited {waited_s:.0f} s in vain: {what}")


def _fail_if(unless: Callable[[], object], what: str) -> None:
    reason = unless()
    if reason is not None:
        raise AssertionError(f"no longer waiting: {what}: {reason}")


def once(is_time: Callable[[_Value], object], do: Callable[[], object]) -> Callable[[_Value], None]:
    """Return what is called at each look, and acts at the first one when it is time."""
    has_acted = False

    def look(progress: _Value) -> None:
        nonlocal has_acted
        if not has_acted and is_time(progress):
            has_acted = True
            do()

    return look
