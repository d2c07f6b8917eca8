"""The list of runs of all kinds, fast for ten thousand runs."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from tarmac.errors import RequestError, unknown_name
from tarmac.wording import in_one_line, number_text

if TYPE_CHECKING:
    from tarmac.runs import RunSummary

# Columns to drop first on a narrow terminal: the name says the kind.
_LEFT_OUT_FIRST = ("kind", "took", "began")

_HEADINGS = ("run", "kind", "status", "began", "took", "result")


def age_of(created_at: datetime) -> str:
    """Return the time since a start, in its largest unit."""
    # The clock of the host that created the run may be ahead of this one.
    seconds = max(0.0, (datetime.now(UTC) - created_at).total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def chosen(
    summaries: Sequence[RunSummary],
    *,
    states: Sequence[str] = (),
    workload: str | None = None,
    key: str | None = None,
    limit: int | None = None,
) -> list[RunSummary]:
    """Return selected summaries in an order.

    Args:
        summaries: Summaries of the runs, newest first.
        states: Keep runs in these states. Default: all.
        workload: Keep runs of this workload. Default: all.
        key: ``began``, ``took`` or a metric: newest, longest or largest first. A leading ``-``
            reverses the order. Runs without a value, or with NaN, come last. Default: unsorted.
        limit: Maximum number of summaries, at least 1. Default: all.

    Raises:
        RequestError: No run has a value for the key, or the limit is below 1.
    """
    if limit is not None and limit < 1:
        raise RequestError(f"--limit is {limit}, expected at least 1")
    kept = [
        summary
        for summary in summaries
        if (not states or summary.status in states) and workload in (None, summary.workload)
    ]
    if key is not None:
        name = key.removeprefix("-")
        values = {summary.path: _value(summary, name) for summary in kept}
        if kept and all(value is None for value in values.values()):
            known = sorted({metric for summary in kept for metric in summary.metrics})
            raise unknown_name("key to sort by", name, dict.fromkeys(("began", "took", *known), ""))
        # NaN, as of a training that diverged, has no place in an order.
        numbers = {
            path: value
            for path, value in values.items()
            if value is not None and not math.isnan(value)
        }
        with_number = [summary for summary in kept if summary.path in numbers]
        with_number.sort(key=lambda summary: numbers[summary.path], reverse=name == key)
        kept = [*with_number, *(summary for summary in kept if summary.path not in numbers)]
    return kept[:limit]


def _value(summary: RunSummary, name: str) -> float | None:
    if name == "began":
        return summary.created_at.timestamp()
    return summary.elapsed_s if name == "took" else summary.metrics.get(name)


def summary_row(summary: RunSummary) -> dict[str, object]:
    """Return a summary for JSON."""
    return {
        "name": summary.name,
        "path": str(summary.path),
        "kind": summary.kind,
        "workload": summary.workload,
        "status": summary.status,
        "created_at": summary.created_at.isoformat(),
        "elapsed_s": summary.elapsed_s,
        "result": summary.result,
        "metrics": dict(summary.metrics),
    }


def print_summaries(summaries: Sequence[RunSummary]) -> None:
    """Print a table of runs, one line each, within the width of a terminal."""
    rows = [
        (
            in_one_line(summary.name),
            summary.kind,
            summary.status,
            age_of(summary.created_at),
            "" if summary.elapsed_s is None else f"{number_text(summary.elapsed_s, digits=1)} s",
            in_one_line(summary.result),
        )
        for summary in summaries
    ]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    # One write: rich's table looks at each cell, which takes seconds for so many.
    head, *lines = _lines([_HEADINGS, *rows], width)
    click.echo(click.style(head, bold=True))
    click.echo("\n".join(lines))


def _lines(rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Return rows of cells as lines; drop columns while the lines are too wide.

    Args:
        rows: Cells in the order of the headings, which come first.
        width: Columns of the terminal; None for lines of any width.
    """
    headings = rows[0]
    lengths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kept = list(range(len(headings)))
    for heading in _LEFT_OUT_FIRST:
        if width is None or sum(lengths[i] + 2 for i in kept) <= width:
            break
        kept.remove(headings.index(heading))
    lines = []
    for cells in rows:
        line = f" {'  '.join(cells[i].ljust(lengths[i]) for i in kept)}".rstrip()
        is_cut = width is not None and len(line) > width
        lines.append(f"{line[: (width or 0) - 1]}…" if is_cut else line)
    return lines
