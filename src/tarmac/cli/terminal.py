"""A filter for the user's terminal: names and lines of others may have commands to it.

A terminal obeys commands: titles, the clipboard, answers that are typed as if by the user. All
output to a terminal passes `harmless`, which keeps only text and colours. Files and pipes get the
output unchanged, except for tables; see `tarmac.cli.console`. Logs need returns and colours.
Messages do not, and show them as escapes: see `tarmac.wording.in_lines`.
"""

from __future__ import annotations

import re
import sys
from typing import Any, TextIO

# ECMA-48. Kept: the clearing of a line's end, and colours except hidden text. Removed: all other
# control sequences, and strings such as titles, which a bell may end too. Replaced: other control
# characters except tabs and ends of lines, and characters that turn the direction of a text around
# (Unicode TR 36). 8 hides text unless it is a number of the palette. The group is atomic, so that
# many numbers are read in one way.
_COLOUR = r"(?>[345]8;(?:5;\d+|2;\d+;\d+;\d+)|(?!0*8(?!\d))\d*)"
_COMMAND = re.compile(
    rf"(?P<kept>\x1b\[(?:K|{_COLOUR}(?:;{_COLOUR})*m))"
    r"|(?P<gone>\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\))"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def harmless(text: str, *, has_colours: bool = True) -> str:
    """Return a text without the commands that a terminal would obey.

    Args:
        text: Any text that is to be shown.
        has_colours: Whether to keep colours and the clearing of a line's end. Default True.
    """

    def replaced(match: re.Match[str]) -> str:
        if match["kept"] and has_colours:
            return match[0]
        return "" if match["kept"] or match["gone"] else "?"

    return text if text.isprintable() else _COMMAND.sub(replaced, text)


class TerminalStream:
    """A terminal's stream that passes only text and colours.

    Args:
        stream: Text stream of the terminal, such as ``sys.stdout``.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write a text without the commands that the terminal would obey."""
        self.stream.write(harmless(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write lines without the commands that the terminal would obey."""
        self.stream.writelines(map(harmless, lines))


def guard_terminals() -> None:
    """Pass only text and colours to the standard streams' terminals from now on."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, TerminalStream) and stream.isatty():
            setattr(sys, name, TerminalStream(stream))
