"""The plain table of ``tarmac top --once``: all that is known at one moment, as text.

ASCII but for names of others, with a letter beside each colour, so that it reads as well in a log
as on a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import Snapshot

__all__ = ["render_once"]


def render_once(
    snapshot: Snapshot, width: int = 80, *, color: bool = False, encoding: str = "utf-8"
) -> str:
    """Return the table, with a line break after each line.

    Args:
        snapshot: What to show.
        width: Columns of the terminal; no line is longer. Below 20 as if there were 20.
        color: Whether to colour by ANSI escapes.
        encoding: Of where it is written; characters that it lacks become ``?``.
    """
    raise NotImplementedError
