"""The console that commands print tables to."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from tarmac.cli.terminal import TerminalStream, harmless

# A file or a pipe has no width of its own, and a table cut to 80 columns loses names.
_WIDTH_ELSEWHERE = 200


def make_console() -> Console:
    """Return a console for standard output, 200 columns wide if that is not a terminal."""
    stream = sys.stdout
    # Without the stream's filter: the console moves the cursor, and filters each text itself.
    file = stream.stream if isinstance(stream, TerminalStream) else None
    console = _Console(highlight=False, soft_wrap=True, file=file)
    if not console.is_terminal:
        console.width = _WIDTH_ELSEWHERE
    return console


class _Console(Console):
    """A console that escapes the commands to terminals in texts; Rich leaves most of them there."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(harmless(text, has_colours=False), style)
