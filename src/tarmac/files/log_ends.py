"""Reads the end of a log for a user: secrets are masked before the text is cut."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from tarmac.files.atomic import open_regular
from tarmac.masking import longest_known, masked_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Read before the end itself, beyond the longest known secret: tokens and URLs that have a form.
_CONTEXT_BYTES = 4096
# Marks in a run may claim secrets of any length.
_MAX_SECRET_BYTES = 2**16

# Progress bars end their lines with a carriage return.
_LINE_END = re.compile(rb"(?:\r\n|\r|\n)(?=[^\r\n])")


def masked_end(
    path: Path,
    num_bytes: int,
    *,
    since: int = 0,
    within: Path | None = None,
    plain: Callable[[str], str] = str,
) -> tuple[str, bool]:
    """Return the end of a log without secrets, and whether it is the whole log.

    The text begins at the start of a line if the end has one. Otherwise it begins inside a line,
    and a secret that begins before it is masked as a whole.

    Args:
        path: Log to read; must be a regular file.
        num_bytes: Maximum length of the end, before masking.
        since: Byte of the log before which nothing is shown. Default 0.
        within: Directory that the log must lie in, wherever links lead. Default: any.
        plain: Removes control characters from a part of the log before masking.

    Raises:
        OSError: The log cannot be read, lies elsewhere, or is no file.
    """
    with open_regular(path, within=within) as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, since, size - num_bytes)
        context_start = max(0, start - min(longest_known(), _MAX_SECRET_BYTES) - _CONTEXT_BYTES)
        file.seek(context_start)
        content = file.read(size - context_start)
    cut = start - context_start
    if cut:
        line_end = _LINE_END.search(content, cut - 1)
        cut = line_end.end() if line_end else _character_start(content, cut)
    context = plain(content[:cut].decode(errors="replace"))
    if content[:cut].endswith(b"\r"):
        context += "\n"
    text = masked_text(context + plain(content[cut:].decode(errors="replace")))
    # A secret across the cut is masked in the whole text alone: both texts differ from there.
    context = masked_text(context)
    pairs = enumerate(zip(context, text, strict=False))
    place = next((place for place, (left, right) in pairs if left != right), len(context))
    return text[place:], start == 0


def _character_start(content: bytes, place: int) -> int:
    """Return where the UTF-8 character begins that is at a place or after it."""
    while place < len(content) and content[place] & 0xC0 == 0x80:
        place += 1
    return place
