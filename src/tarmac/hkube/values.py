"""Storage format and digest of tasks' values.

Values are plain: None, bool, int, float, str, bytes, list, dict. The format is lossless, even for
integers of any size, unlike the encodings of HKube's protocol.
"""

from __future__ import annotations

import hashlib
from typing import Any

from tarmac.distribution import explained_imports
from tarmac.errors import TarmacError

with explained_imports():
    import msgpack

# MessagePack's integers have at most 64 bits; JSON's may have more.
_BIG_INTEGER = 1


def pack(value: Any) -> bytes:
    """Return a value as MessagePack.

    Raises:
        TarmacError: The value is not plain, nested too deeply, or has a part of 4 GiB or more.
    """
    try:
        packed = msgpack.packb(value, default=_pack_other, unicode_errors="surrogatepass")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TarmacError(f"a result cannot be stored: {error}") from error
    return bytes(packed)


def unpack(packed: bytes) -> Any:
    """Return the value from the bytes of `pack`.

    Raises:
        TarmacError: The bytes are damaged.
    """
    try:
        return msgpack.unpackb(
            packed, strict_map_key=False, ext_hook=_unpack_other, unicode_errors="surrogatepass"
        )
    except (TypeError, ValueError, msgpack.UnpackException, RecursionError) as error:
        # A TypeError comes from a list as a key.
        raise TarmacError(f"a stored result is damaged: {error}") from error


def digest_of(value: Any) -> str:
    """Return a digest of a value; empty if the value cannot be packed, so it equals no other.

    Example:
        >>> digest_of([1]) == digest_of([1]) != digest_of([2])
        True
    """
    try:
        packed = pack(value)
    except TarmacError:
        return ""
    return hashlib.blake2b(packed, digest_size=16).hexdigest()


def _pack_other(value: Any) -> Any:
    if isinstance(value, int):
        size = value.bit_length() // 8 + 1
        return msgpack.ExtType(_BIG_INTEGER, value.to_bytes(size, "big", signed=True))
    raise TypeError(f"{type(value).__name__} is no plain value")


def _unpack_other(code: int, data: bytes) -> Any:
    if code != _BIG_INTEGER:
        raise ValueError(f"unknown type {code}")
    return int.from_bytes(data, "big", signed=True)
