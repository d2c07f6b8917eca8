"""Progress of a soak, and afterwards the driver's observations of it."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tarmac.checks import Report, Soak, SoakProgress

# Without a terminal, a line in this interval shows that the soak runs.
_LINE_EVERY_S = 60.0


def seconds_of(text: str) -> float:
    """Return the duration of a soak in seconds.

    Raises:
        RequestError: The text is not a duration.
    """
    from tarmac.documents import parse_seconds
    from tarmac.errors import RequestError

    try:
        return parse_seconds(text)
    except ValueError as error:
        raise RequestError(f"--soak {text!r}: {error}") from error


def has_mismatch(report: Report) -> bool:
    """Return whether a soak found different bits."""
    return any(finding.code == "soak-mismatch" for finding in report.findings)


@contextlib.contextmanager
def soaking(*, is_asked: bool) -> Iterator[tuple[threading.Event, Callable[[SoakProgress], None]]]:
    """Yield the event that Ctrl-C and SIGTERM set during a soak, and the progress callback.

    Progress goes to standard error: one line that is rewritten on a terminal, a line each minute
    elsewhere. Without a soak, signals keep their handlers.
    """
    stop = threading.Event()
    is_terminal = sys.stderr.isatty()
    last_s = 0.0

    def tell(progress: SoakProgress) -> None:
        nonlocal last_s
        if is_terminal:
            # ECMA-48's EL erases the rest of a longer line before.
            click.echo(f"\r{_in_a_line(progress)}\x1b[K", nl=False, err=True)
        elif progress.elapsed_s - last_s >= _LINE_EVERY_S:
            last_s = progress.elapsed_s
            click.echo(_in_a_line(progress), err=True)

    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
        if is_asked
    }
    try:
        yield stop, tell
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if is_terminal and is_asked:
            click.echo("\r\x1b[K", nl=False, err=True)


def _in_a_line(progress: SoakProgress) -> str:
    parts = [f"soak {progress.elapsed_s:.0f} of {progress.limit_s:g} s"]
    steps = dict.fromkeys(device.step for device in progress.devices if not device.lost)
    parts += [", ".join(steps)] if steps else []
    lost = [device.name for device in progress.devices if device.lost]
    comparisons = sum(device.comparisons for device in progress.devices)
    wrong = sum(device.num_mismatches for device in progress.devices)
    parts.append(f"{comparisons:,} comparisons, {wrong:,} wrong")
    parts += [f"lost: {', '.join(lost)}"] if lost else []
    parts += [f"{progress.hottest_c} °C"] if progress.hottest_c is not None else []
    return "  ".join(parts)


def print_soak(soak: Soak) -> None:
    """Print the driver's observations of the GPUs during a soak."""
    if soak.gpus or soak.kernel_log:
        click.secho("Seen during the soak", bold=True)
    for gpu in soak.gpus:
        facts = [f"at most {gpu.hottest_c} °C"] if gpu.hottest_c is not None else []
        facts += [f"{gpu.most_watts:.0f} W"] if gpu.most_watts is not None else []
        if gpu.sm_clock_mhz:
            facts.append("{lowest} to {highest} MHz".format_map(gpu.sm_clock_mhz))
        facts += [f"slowed: {', '.join(gpu.slowdowns)}"] if gpu.slowdowns else []
        grown = [f"{name} +{number}" for name, number in gpu.counters.items() if number]
        facts.append(", ".join(grown) or f"none of {len(gpu.counters)} error counters grew")
        click.echo(f"  {gpu.name}  {'; '.join(facts)}")
    for line in soak.kernel_log:
        click.echo(f"  kernel  {line}")
