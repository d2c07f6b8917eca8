r"""Decoding of escapes for any character, in URLs, HTML, JSON, shells and hex dumps.

Libraries differ in the characters that they escape, and a text may mix several forms. So secrets
are searched in the decoded text.

Example:
    >>> unescaped(b"a%20&quot;b\\x21")[0]
    b'a "b!'
"""

from __future__ import annotations

import bisect
import functools
import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# Both patterns begin with a set of characters, so that the search skips other places quickly.
_ESCAPE = re.compile(
    rb"[%&'\\](?:(?<=%)HH"
    rb"|(?<=&)(?:#[0-9]{1,7}|#[xX]H{1,6}|amp|lt|gt|quot|apos);"
    # A single quote in a shell's single quotes.
    rb"|(?<=')(?:\\'|\"'\")'"
    rb"|(?<=\\)(?:u[dD][89aAbB]HH\\u[dD][c-fC-F]HH|uHHHH|UH{8}|u\{H{1,6}\}|xHH|[0-3][0-7]{2}|[^\n])"
    rb")".replace(b"H", b"[0-9A-Fa-f]")
)
# 5a 71 39, 5a:71:39, 0x5a, 0x71, and groups such as 5a71 397f, at least as long as the shortest
# secret.
_DUMP = re.compile(
    rb"H(?<![0-9A-Za-z%\\].)(?:(?<=0)xHH|H)(?:"
    rb"(?:S(?:0x)?HH){5,}"
    rb"|(?:(?:HH){0,7}(?:S(?:0x)?(?:HH){2,8}){2,}|(?:HH){3,7}S(?:0x)?(?:HH){2,8})(?:S(?:0x)?HH)?"
    rb")(?![0-9A-Za-z])".replace(b"H", b"[0-9A-Fa-f]").replace(b"S", rb"[\s:,-]{1,4}")
)
# Colours and window titles of a terminal.
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))")
_PAIR = re.compile(rb"[0-9A-Fa-f]{2}")
_FIXED = {
    b"&amp;": b"&",
    b"&lt;": b"<",
    b"&gt;": b">",
    b"&quot;": b'"',
    b"&apos;": b"'",
    b"'\\''": b"'",
    b"'\"'\"'": b"'",
    b"\\a": b"\a",
    b"\\b": b"\b",
    b"\\e": b"\x1b",
    b"\\f": b"\f",
    b"\\n": b"\n",
    b"\\r": b"\r",
    b"\\t": b"\t",
    b"\\v": b"\v",
}


class Unit(NamedTuple):
    """The span of an escape in the decoded text and in the source."""

    plain_start: int
    plain_end: int
    start: int
    end: int


def unescaped(content: bytes) -> tuple[bytes, list[Unit]]:
    """Return a text with its escapes decoded once, and the escapes in their order."""
    return _replaced(content, sorted(_decoded(content)))


def on_terminal(content: bytes) -> tuple[bytes, list[Unit]]:
    """Return a text without the sequences that a terminal hides, and the sequences in order."""
    sequences = _SEQUENCE.finditer(content)
    return _replaced(content, [(match.start(), match.end(), b"") for match in sequences])


def _replaced(
    content: bytes, replacements: Sequence[tuple[int, int, bytes]]
) -> tuple[bytes, list[Unit]]:
    pieces: list[bytes] = []
    units: list[Unit] = []
    place = plain_place = 0
    for start, end, decoded in replacements:
        pieces += (content[place:start], decoded)
        plain_start = plain_place + start - place
        place, plain_place = end, plain_start + len(decoded)
        units.append(Unit(plain_start, plain_place, start, end))
    return b"".join([*pieces, content[place:]]), units


def source_span(units: Sequence[Unit], start: int, end: int) -> tuple[int, int]:
    """Return the span in the source of a non-empty part of a decoded text."""
    first, last = _place(units, start), _place(units, end - 1)
    return first[0], last[1]


def _place(units: Sequence[Unit], place: int) -> tuple[int, int]:
    number = bisect.bisect_right(units, place, key=lambda unit: unit.plain_start) - 1
    if number < 0:
        return place, place + 1
    unit = units[number]
    if place < unit.plain_end:
        return unit.start, unit.end
    return unit.end + place - unit.plain_end, unit.end + place - unit.plain_end + 1


def _decoded(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the start, the end and the decoded bytes of each escape, unordered."""
    for match in _ESCAPE.finditer(content):
        yield match.start(), match.end(), _character(match.group())
    for match in _DUMP.finditer(content):
        start = match.start()
        for pair in _PAIR.finditer(content, start, match.end()):
            yield start, pair.end(), bytes.fromhex(pair.group().decode())
            start = pair.end()


@functools.lru_cache(4096)
def _character(escape: bytes) -> bytes:
    if fixed := _FIXED.get(escape):
        return fixed
    text = escape.decode("latin-1")
    if text.startswith(("%", "\\x")) and len(text) > 2:
        return bytes.fromhex(text[-2:])
    if text.startswith("\\") and not (text[1] in "uU" and len(text) > 2):
        return bytes([int(text[1:], 8)]) if len(text) == 4 else escape[1:]
    if text.count("\\u") > 1:
        return bytes.fromhex(text.replace("\\u", "")).decode("utf-16-be").encode()
    digits = re.sub(r"^(?:&#[xX]?|\\[uU]\{?)|[;}]$", "", text)
    code = int(digits, 10 if re.match("&#[0-9]", text) else 16)
    return chr(code).encode(errors="surrogatepass") if code <= sys.maxunicode else escape
