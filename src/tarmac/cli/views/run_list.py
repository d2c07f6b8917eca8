"""Runs of every kind in a list, which ten thousand of them do not slow down."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.runs import RunSummary

__all__ = ["age_of", "print_summaries", "summary_row"]

_HEADINGS = ("run", "kind", "status", "began", "took", "result")


def age_of(created_at: datetime) -> str:
    """Return how long ago something began, in its largest unit."""
    # The clock of the host that made it may be ahead of this one.
    seconds = max(0.0, (datetime.now(UTC) - created_at).total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


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
    """Print a table of runs, a line each."""
    rows = [
        (
            summary.name,
            summary.kind,
            summary.status,
            age_of(summary.created_at),
            "" if summary.elapsed_s is None else f"{summary.elapsed_s:.1f} s",
            summary.result,
        )
        for summary in summaries
    ]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    click.echo(click.style(_line(_HEADINGS, widths), bold=True))
    # One write: rich's table, which looks at each cell, takes seconds for so many.
    click.echo("\n".join(_line(row, widths) for row in rows))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = map(str.ljust, cells, widths)
    return f" {'  '.join(padded)}".rstrip()
