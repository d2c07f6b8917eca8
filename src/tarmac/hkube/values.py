"""Values of tasks as bytes: stored, and known again.

Values are plain: None, bool, int, float, str, bytes, list, dict. They come back exactly, integers
of any size too, which the encodings of HKube's protocol do not promise.
"""

from __future__ import annotations

import hashlib
from typing import Any

from tarmac.distribution import explained_imports
from tarmac.errors import TarmacError

with explained_imports():
    import msgpack

# MessagePack's own integers end at 64 bits; JSON's do not.
_BIG_INTEGER = 1


def pack(value: Any) -> bytes:
    """Return a value as MessagePack.

    Raises:
        TarmacError: It is none of the plain values, nested too deeply, or 4 GiB and more in a part.
    """
    try:
        packed = msgpack.packb(value, default=_pack_other, unicode_errors="surrogatepass")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TarmacError(f"a result cannot be stored: {error}") from error
    return bytes(packed)


def unpack(packed: bytes) -> Any:
    """Return the value that `pack` was given.

    Raises:
        TarmacError: These are not its bytes.
    """
    try:
        return msgpack.unpackb(
            packed, strict_map_key=False, ext_hook=_unpack_other, unicode_errors="surrogatepass"
        )
    except (TypeError, ValueError, msgpack.UnpackException, RecursionError) as error:
        # A TypeError is a list for a key.
        raise TarmacError(f"a stored result is damaged: {error}") from error


def digest_of(value: Any) -> str:
    """Return what tells a value from others; what cannot be packed is like nothing else.

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
