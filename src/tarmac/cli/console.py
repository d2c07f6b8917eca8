"""The console that commands print tables to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment

from tarmac.cli.terminal import TerminalStream, harmless

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType

# A file or a pipe has no width of its own, and a table cut to 80 columns loses names.
_WIDTH_ELSEWHERE = 200


def make_console() -> Console:
    """Return a console for standard output: as wide as the terminal, or wide where none is."""
    stream = sys.stdout
    # It moves the cursor itself, and looks at each text.
    file = stream.stream if isinstance(stream, TerminalStream) else None
    console = _Console(highlight=False, soft_wrap=True, file=file)
    if not console.is_terminal:
        console.width = _WIDTH_ELSEWHERE
    return console


class _Console(Console):
    """A console in whose texts a terminal finds nothing to obey; Rich leaves most there."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(harmless(text, has_colours=False), style)
