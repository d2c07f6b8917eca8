"""Settings of the drawing, common to all views."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from tarmac.monitor.drawing.lines import Line, Row, Span, clean, fitted, width_of

# The same as the default of `WatchOptions.idle_after_s`.
IDLE_AFTER_S = 600.0


@dataclasses.dataclass(frozen=True)
class Look:
    """The settings of the drawing.

    Attributes:
        width: Width of a line, in cells.
        ascii_only: Whether to draw with ASCII alone.
        encoding: Encoding of the output. Characters that it lacks become ``?``. Default: UTF-8.
        hidden: Keys of the columns to hide.
        idle_after_s: Seconds after which a held, idle GPU is reported. Default 600.
        folds: Whether to draw only some of very many parts of one work.
        past: Function that returns a GPU's past utilization by host and UUID, the newest last; None
            without a history.
    """

    width: int
    ascii_only: bool = False
    encoding: str = "utf-8"
    hidden: frozenset[str] = frozenset()
    idle_after_s: float = IDLE_AFTER_S
    folds: bool = True
    past: Callable[[str, str], Sequence[float | None]] | None = None

    def clean(self, text: str | None) -> str:
        """Return a foreign text made safe for a terminal; ``-`` for None."""
        return "-" if text is None else clean(text, self.encoding)


@dataclasses.dataclass(frozen=True)
class View:
    """The lines of a view.

    Attributes:
        heading: Line of the column titles.
    """

    heading: Line
    rows: tuple[Row, ...]


def with_command(message: Line, command: str, look: Look, indent: str = "  ") -> list[Line]:
    """Return a message and its command, on one line if both fit, else on two.

    Args:
        message: Message to show. Cut if it is too long.
        command: Command to show, safe for a terminal; empty for none.
        look: Settings with the width of a line.
        indent: Text at the start of the second line. Default: two spaces.
    """
    lines: list[Line] = [message]
    if command:
        typed = (Span("$ ", "dim"), Span(command, "strong"))
        whole = (*message, Span("  "), *typed)
        lines = [whole] if width_of(whole) <= look.width else [message, (Span(indent), *typed)]
    return [fitted(line, look.width, ascii_only=look.ascii_only) for line in lines]
