"""Text with tones: spans and lines, cut to the cells of a terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """A piece of a line.

    Attributes:
        tone: Meaning of the text: ``busy``, ``free``, ``held``, ``bad``, ``warn``, ``dim``,
            ``strong``, ``title``, or empty.
    """

    text: str
    tone: str = ""


Line = tuple[Span, ...]


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of a view, with the key of its subject.

    Attributes:
        key: Identity of the subject across snapshots: ``(kind, host, id)``. A row that continues
            the previous row has an empty key, and cannot be chosen.
        depth: Levels of indentation below its parent; -1 for a host above its GPUs.
    """

    key: tuple[str, ...]
    line: Line
    depth: int = 0


def clean(text: str, encoding: str = "utf-8") -> str:
    """Return a foreign text with ``?`` for control characters and other unprintable characters.

    Args:
        text: Untrusted text, such as another user's command line.
        encoding: Encoding of the output. Characters that it lacks become ``?`` too.
    """
    if text.isascii() and text.isprintable():
        return text
    spaced = " ".join(text.split())
    shown = "".join(c if c.isprintable() else "?" for c in spaced)
    return shown.encode(encoding, errors="replace").decode(encoding)


def num_cells(text: str) -> int:
    """Return the number of cells of a text; some characters take two cells, some none."""
    if text.isascii():
        return len(text)
    # The import takes a tenth of the time of a single snapshot, which rarely needs its table.
    from rich.cells import cell_len  # noqa: PLC0415

    return cell_len(text)


def width_of(line: Line) -> int:
    """Return the number of cells of a line."""
    return sum(num_cells(span.text) for span in line)


def cut(text: str, width: int, *, ascii_only: bool = False) -> str:
    """Return a text in at most ``width`` cells; an ellipsis or ``~`` marks a cut."""
    if num_cells(text) <= width:
        return text
    if width <= 0:
        return ""
    if text.isascii():
        kept = text[: width - 1]
    else:
        from rich.cells import set_cell_size  # noqa: PLC0415 - as in `num_cells`

        kept = set_cell_size(text, width - 1)
    return kept.rstrip() + ("~" if ascii_only else "…")


def fitted(line: Line, width: int, *, ascii_only: bool = False) -> Line:
    """Return a line, cut to at most ``width`` cells."""
    left = width
    kept = []
    for number, span in enumerate(line):
        size = num_cells(span.text)
        rest = any(later.text.strip() for later in line[number + 1 :])
        if not rest and not span.text.strip():
            break
        if size > left or (rest and size == left):
            text = span.text if size > left else f"{span.text} "
            kept.append(Span(cut(text, left, ascii_only=ascii_only), span.tone))
            break
        kept.append(span)
        left -= size
    return tuple(kept)


def joined(parts: Iterable[Line], width: int, between: str = "  ") -> Line:
    """Return the parts that fit on a line side by side; the first part is always included."""
    line: list[Span] = []
    used = 0
    for part in parts:
        size = width_of(part)
        if not line:
            line, used = [*part], size
        elif used + len(between) + size <= width:
            line += [Span(between), *part]
            used += len(between) + size
    return tuple(line)
