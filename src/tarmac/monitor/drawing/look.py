"""How views are to be drawn: what is common to all of them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.monitor.drawing.lines import Span, clean, fitted, width_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tarmac.monitor.drawing.lines import Line, Row

# As `WatchOptions.idle_after_s`.
IDLE_AFTER_S = 600.0


@dataclasses.dataclass(frozen=True)
class Look:
    """How to draw.

    Attributes:
        width: Cells of a line.
        ascii_only: Draws with ASCII alone.
        encoding: Encoding of the output. Characters that it lacks become ``?``. Default: UTF-8.
        hidden: Keys of columns that are not wanted.
        idle_after_s: A GPU that is held and does nothing is news after so many seconds.
        folds: Whether of a whole with very many parts only some are drawn.
        past: What a GPU's utilization was, by host and UUID, the newest last; None where nothing is
            remembered.
    """

    width: int
    ascii_only: bool = False
    encoding: str = "utf-8"
    hidden: frozenset[str] = frozenset()
    idle_after_s: float = IDLE_AFTER_S
    folds: bool = True
    past: Callable[[str, str], Sequence[float | None]] | None = None

    def clean(self, text: str | None) -> str:
        """Return a text of others fit for a terminal; ``-`` for None."""
        return "-" if text is None else clean(text, self.encoding)


@dataclasses.dataclass(frozen=True)
class View:
    """A view's lines.

    Attributes:
        heading: The titles of its columns.
    """

    heading: Line
    rows: tuple[Row, ...]


def with_command(said: Line, command: str, look: Look, indent: str = "  ") -> list[Line]:
    """Return what is said and what to type, in one line where both fit, else in two.

    Args:
        said: Cut where it is too long.
        command: Fit for a terminal; empty where there is none.
        look: How wide a line is.
        indent: Text at the start of the second line. Default: two spaces.
    """
    lines: list[Line] = [said]
    if command:
        typed = (Span("$ ", "dim"), Span(command, "strong"))
        whole = (*said, Span("  "), *typed)
        lines = [whole] if width_of(whole) <= look.width else [said, (Span(indent), *typed)]
    return [fitted(line, look.width, ascii_only=look.ascii_only) for line in lines]
