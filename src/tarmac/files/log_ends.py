"""Reading of a log's end for a user, with secrets redacted before the text is cut."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from tarmac.files.atomic import open_regular
from tarmac.masking import longest_known, masked_text

# Length of the text read before the end, beyond the longest known secret: for tokens and URLs with
# a recognised form.
_CONTEXT_BYTES = 4096
# Limit, because marks in a run may claim secrets of any length.
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
    """Return the end of a log with secrets redacted, and whether it is the whole log.

    The text begins at the start of a line if the end has one. Otherwise it begins inside a line,
    and a secret that begins before it is redacted as a whole.

    Args:
        path: Log to read, a regular file.
        num_bytes: Maximum length of the end in bytes, before redaction.
        since: Byte of the log before which nothing is shown. Default 0.
        within: Directory that the log must be in after following links. Default: any.
        plain: Removes control characters from a part of the log before redaction.

    Raises:
        OSError: The log cannot be read, is outside `within`, or is no regular file.
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
    # A secret across the cut is redacted only in the whole text: both texts differ from there on.
    context = masked_text(context)
    pairs = enumerate(zip(context, text, strict=False))
    place = next((place for place, (left, right) in pairs if left != right), len(context))
    return text[place:], start == 0


def _character_start(content: bytes, place: int) -> int:
    """Return the start of the first UTF-8 character at or after a byte."""
    while place < len(content) and content[place] & 0xC0 == 0x80:
        place += 1
    return place
