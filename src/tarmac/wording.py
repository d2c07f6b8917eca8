"""Numbers and names as text, the same in every message.

Example:
    >>> counted(1, "epoch"), counted(1200, "epoch"), counted(2, "process"), counted(1.0, "GPU")
    ('1 epoch', '1,200 epochs', '2 processes', '1 GPU')
    >>> number_text(0.91237), number_text(1e300), number_text(1234.5, digits=0)
    ('0.9124', '1.000e+300', '1,234')
"""

from __future__ import annotations

import unicodedata

# Unicode categories of control and formatting characters, such as those that turn the direction of
# text, and of the two line separators.
_STEERING = frozenset({"Cc", "Cf", "Zl", "Zp"})

# Allowed in names of workloads and files: emoji and some scripts consist of characters and joiners.
_JOINERS = "\u200c\u200d"

# Nobody reads the single digits of a larger number.
_MAX_WRITTEN_OUT = 1e12


def counted(count: float | None, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: ``1 task``, ``12 tasks``, ``0.5 GPUs``.

    Args:
        count: Number of things; None for infinitely many.
        noun: Name of the things, in the singular.
        plural: Plural of the noun. Default: with an s, or es.
    """
    if count is None:
        number = "infinitely many"
    else:
        number = f"{count:,}" if isinstance(count, int) else f"{count:,g}"
    plural = plural or (f"{noun}es" if noun.endswith("s") else f"{noun}s")
    return f"{number} {noun if count == 1 else plural}"


def number_text(value: float, *, digits: int = 4) -> str:
    """Return a number with a fixed number of decimals; from 1e12 as a power of ten.

    Args:
        value: Any number, also NaN and infinity.
        digits: Digits after the point. Default 4.
    """
    return f"{value:,.{digits}f}" if abs(value) < _MAX_WRITTEN_OUT else f"{value:.3e}"


def in_one_line(text: str) -> str:
    r"""Return a text with control characters, including line ends, as escapes.

    Example:
        >>> print(in_one_line("run\x1b[2J\nx"))
        run\x1b[2J\nx
    """
    if text.isprintable():
        return text
    return "".join(_escaped(c) if _steers(c) else c for c in text)


def in_lines(text: str) -> str:
    r"""Return a text with control characters, except tabs and line ends, as escapes.

    Example:
        >>> print(in_lines("run\x1b[2J: damaged\r\nhint"))
        run\x1b[2J: damaged\r
        hint
    """
    return "\n".join("\t".join(map(in_one_line, line.split("\t"))) for line in text.split("\n"))


def _steers(character: str) -> bool:
    return unicodedata.category(character) in _STEERING and character not in _JOINERS


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
