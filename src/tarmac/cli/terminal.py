"""What reaches the user's terminal: names and lines of others may hold commands to it.

A terminal obeys what it is sent: titles, the clipboard, answers that are typed as if by the user.
So all that a command prints goes through `harmless`, by which text and colours alone pass. Files
and pipes get it as it is, but for tables; see `tarmac.cli.console`. Logs need returns and colours;
messages do not, and show them as escapes: see `tarmac.wording.in_lines`.
"""

from __future__ import annotations

import re
import sys
from typing import Any, TextIO

# ECMA-48: the end of a line that is cleared, colours but for hidden text, other control sequences;
# strings such as titles, which a bell may end too; what is left of them, but for tabs and ends of
# lines; and characters that turn the direction of a text around (Unicode TR 36). 8 hides text where
# it is no number of the palette. The group is atomic, so that many numbers are read in one way.
_COLOUR = r"(?>[345]8;(?:5;\d+|2;\d+;\d+;\d+)|(?!0*8(?!\d))\d*)"
_COMMAND = re.compile(
    rf"(?P<kept>\x1b\[(?:K|{_COLOUR}(?:;{_COLOUR})*m))"
    r"|(?P<gone>\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\))"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def harmless(text: str, *, has_colours: bool = True) -> str:
    """Return a text without what a terminal would obey.

    Args:
        text: Whatever is to be shown.
        has_colours: Whether colours, and the clearing of a line's end, pass. Default True.
    """

    def replaced(found: re.Match[str]) -> str:
        if found["kept"] and has_colours:
            return found[0]
        return "" if found["kept"] or found["gone"] else "?"

    return text if text.isprintable() else _COMMAND.sub(replaced, text)


class TerminalStream:
    """A terminal that is sent nothing but text and colours.

    Args:
        stream: Text stream of the terminal, such as ``sys.stdout``.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write a text without what the terminal would obey."""
        self.stream.write(harmless(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write lines likewise."""
        self.stream.writelines(map(harmless, lines))


def guard_terminals() -> None:
    """Send the standard streams' terminals nothing but text and colours from now on."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, TerminalStream) and stream.isatty():
            setattr(sys, name, TerminalStream(stream))
