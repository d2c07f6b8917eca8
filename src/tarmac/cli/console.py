"""The console that commands print tables to."""

from __future__ import annotations

from rich.console import Console

__all__ = ["make_console"]

# A file or a pipe has no width of its own, and a table cut to 80 columns loses names.
_WIDTH_ELSEWHERE = 200


def make_console() -> Console:
    """Return a console for standard output: as wide as the terminal, or wide where none is."""
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _WIDTH_ELSEWHERE
    return console
