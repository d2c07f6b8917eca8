"""A log of any text encoding as UTF-8 bytes, in pieces of bounded size."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import BinaryIO

from tarmac.errors import RequestError, quoted

_CHUNK_BYTES = 2**20

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# The first bytes of compressed files, and the command that decompresses each.
_PACKED = {
    b"\x1f\x8b": "zcat",
    b"\x28\xb5\x2f\xfd": "zstdcat",
    b"\xfd7zXZ\x00": "xzcat",
    b"BZh": "bzcat",
    b"PK\x03\x04": "unzip -p",
}

# Control characters that terminals do not use; a log has at most a few of them.
_CONTROL = bytes({*range(32)} - {0, *b"\a\b\t\n\v\f\r\x1b"})
_MAX_CONTROL = 0.02

# Colours and all other escape sequences of terminals (ECMA-48): CSI, OSC, and short ones.
_LONGEST_SEQUENCE = 64
_TERMINAL = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\-~])"
)


def read_chunks(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield a log's bytes as they come, without colours and NULs; lines end with a line feed.

    Progress bars go back by a carriage return or by backspaces. Each carriage return or backspace
    becomes a carriage return.

    Args:
        file: Binary file to read until its end.
        name: Name of the file in error messages.

    Raises:
        RequestError: The file is compressed, or is not text.
    """
    chunk = _read(file)
    encoding, chunk = _encoding(chunk)
    if encoding == "utf-8":
        _refuse_binary(chunk, name)
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    rest = b""
    while chunk:
        data = rest + (chunk if encoding == "utf-8" else decoder.decode(chunk).encode())
        chunk = _read(file)
        cut = _safe_cut(data) if chunk else len(data)
        data, rest = data[:cut], data[cut:]
        yield _plain(data)


def _safe_cut(data: bytes) -> int:
    """Return an index to cut at that splits neither an escape sequence nor CR LF."""
    escape = data.rfind(b"\x1b", max(0, len(data) - _LONGEST_SEQUENCE))
    return escape if escape >= 0 else len(data) - data.endswith(b"\r")


def _read(file: BinaryIO) -> bytes:
    """Return the bytes that are available; wait only for the first, as a pipe may be slow."""
    read1 = getattr(file, "read1", file.read)
    data: bytes = read1(_CHUNK_BYTES)
    return data


def _plain(data: bytes) -> bytes:
    if b"\0" in data:
        # A log that was truncated while a program wrote to it begins with NULs.
        data = data.replace(b"\0", b"")
    if b"\x1b" in data:
        data = _TERMINAL.sub(b"", data)
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    return data.replace(b"\b", b"\r") if b"\b" in data else data


def _encoding(first: bytes) -> tuple[str, bytes]:
    """Return a log's encoding by its first bytes, and these bytes without a byte order mark."""
    for mark, encoding in _BOMS:
        if first.startswith(mark):
            return encoding, first[len(mark) :]
    # ASCII in UTF-16 has a NUL in every second place.
    even, odd = first[0::2], first[1::2]
    if odd and odd.count(0) > 0.6 * len(odd) and even.count(0) < 0.2 * len(even):
        return "utf-16-le", first
    if even and even.count(0) > 0.6 * len(even) and odd.count(0) < 0.2 * len(odd):
        return "utf-16-be", first
    return "utf-8", first


def _refuse_binary(first: bytes, name: str) -> None:
    for magic, command in _PACKED.items():
        if first.startswith(magic):
            raise RequestError(
                f"{name} is compressed",
                hint=f"{command} {quoted(PurePath(name))} | tarmac check --read -",
            )
    num_control = len(first) - len(first.translate(None, _CONTROL))
    if num_control > _MAX_CONTROL * len(first.replace(b"\0", b"")):
        raise RequestError(f"{name} is not text", hint="Name a log: tarmac check --read train.log")
