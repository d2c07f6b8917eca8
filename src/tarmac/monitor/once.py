"""The plain table of ``tarmac top --once``: one snapshot as text.

The table is ASCII except for names from outside, with a letter beside each colour. So it is as
readable in a log as on a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.monitor.drawing import (
    IDLE_AFTER_S,
    Line,
    Look,
    Span,
    finding_lines,
    gpus_view,
    head_line,
    trouble_lines,
)

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import Snapshot

_MIN_WIDTH = 20

# SGR: "Select Graphic Rendition" of ECMA-48.
_ANSI = {
    "busy": "32",
    "free": "2",
    "held": "33",
    "bad": "31",
    "warn": "33",
    "dim": "2",
    "strong": "1",
    "title": "1",
}


def render_once(
    snapshot: Snapshot,
    width: int = 80,
    *,
    color: bool = False,
    encoding: str = "utf-8",
    idle_after_s: float = IDLE_AFTER_S,
) -> str:
    """Return the table of a snapshot, with a line break after each line.

    Args:
        snapshot: Snapshot to print, of all hosts.
        width: Columns of the terminal; no line is longer. At least 20. Default 80.
        color: Whether to use ANSI colours. Default False.
        encoding: Encoding of the output. Characters that it lacks become ``?``.
        idle_after_s: Seconds after which a held, idle GPU is reported above the table. Default 600.
    """
    look = Look(
        max(width, _MIN_WIDTH), ascii_only=True, encoding=encoding, idle_after_s=idle_after_s
    )
    view = gpus_view(snapshot, look)
    lines: list[Line] = [
        head_line(snapshot, look),
        *finding_lines(snapshot, look),
        *trouble_lines(snapshot, look),
    ]
    lines += [line for line in (view.heading, *(row.line for row in view.rows)) if line]
    if not any(host.work or host.gpus for host in snapshot.hosts):
        lines.append((Span("no run is active", "dim"),))
    return "".join(_drawn(line, color=color) + "\n" for line in lines)


def _drawn(line: Line, *, color: bool) -> str:
    if not color:
        return "".join(span.text for span in line).rstrip()
    return "".join(
        f"\x1b[{_ANSI[span.tone]}m{span.text}\x1b[0m"
        if span.tone in _ANSI and span.text.strip()
        else span.text
        for span in line
    )
