"""A pattern of the catalogue as readable text, as it appears in a log."""

from __future__ import annotations

from collections.abc import Iterator
from re import _parser as parser  # type: ignore[attr-defined] # typeshed only has the old name
from typing import Any


def readable(pattern: str) -> str:
    r"""Return the first text that a pattern is made for, with an ellipsis for each variable part.

    Example:
        >>> readable(r"[Cc]onnect (to \S+ )?returned .{1,40}, exceeded (error|retry) count")
        'Connect returned …, exceeded error count'
    """
    return "".join(_words(parser.parse(pattern))).strip("… ")


def _words(parts: Any) -> Iterator[str]:
    for operation, argument in parts:
        match str(operation):
            case "LITERAL":
                yield chr(argument)
            case "SUBPATTERN":
                yield from _words(argument[-1])
            case "BRANCH":
                yield from _words(argument[1][0])
            case "IN":
                yield from _of_class(argument)
            case "ANY" | "NOT_LITERAL":
                yield "…"
            case "MAX_REPEAT" | "MIN_REPEAT" if argument[0] > 0 or argument[1] > 1:
                yield from _words(argument[2])


def _of_class(members: Any) -> Iterator[str]:
    """Yield the first letter of a list such as ``[Ee]``; an ellipsis for all other classes."""
    operation, first = members[0]
    is_list = all(str(kind) == "LITERAL" for kind, _ in members)
    yield chr(first) if is_list and str(operation) == "LITERAL" else "…"
