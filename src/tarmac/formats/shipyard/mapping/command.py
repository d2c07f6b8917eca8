"""Commands as lists of words, or as lines for ``sh`` if they need a shell."""

from __future__ import annotations

import re
import shlex

# Characters that a shell interprets outside quotes, and variables, also inside double quotes.
_ACTIVE = frozenset("<>|&;()*?[`\n")
_VARIABLE = re.compile(r"\$[A-Za-z_{(0-9?#@*!$]")


def as_command(text: str) -> list[str] | str:
    """Return a command as words, or unchanged if it needs a shell.

    Batch Shipyard passes the line to a shell on the node, after ``docker run IMAGE``.

    Raises:
        ValueError: A quotation has no end.
    """
    words = shlex.split(text)
    return text if _needs_shell(text) or not words else words


def _needs_shell(text: str) -> bool:
    quote = ""
    skip = False
    for number, character in enumerate(text):
        if skip:
            skip = False
        elif quote == "'":
            quote = "" if character == "'" else quote
        elif character == "\\":
            skip = True
        elif character == "`" or (character == "$" and _VARIABLE.match(text, number)):
            return True
        elif character == '"':
            quote = "" if quote else '"'
        elif not quote:
            if character == "'":
                quote = "'"
            elif character in _ACTIVE or (
                character in "~#" and text[number - 1 : number].strip() == ""
            ):
                return True
    return False


def with_entrypoint(
    command: list[str] | str | None, entrypoint: str | None
) -> tuple[list[str] | str | None, list[str] | None]:
    """Return the command and the entrypoint for a container.

    A shell line after an entrypoint becomes one line for ``sh``, with the entrypoint in it.

    Raises:
        ValueError: A quotation has no end.
    """
    if not entrypoint:
        return command, None
    if isinstance(command, str):
        return ["-c", f"exec {entrypoint} {command}"], ["sh"]
    return command, shlex.split(entrypoint) or None
