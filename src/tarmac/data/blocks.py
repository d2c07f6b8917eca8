"""Checks and digests of large arrays, from evenly spaced blocks instead of all bytes."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarmac.errors import RequestError

_NUM_BLOCKS = 256
_BLOCK_BYTES = 2**20


def check_finite(what: str, column: NDArray[Any]) -> None:
    """Raise a RequestError for NaN and infinity; above 256 MiB, check 256 evenly spaced MiB."""
    if column.dtype.kind != "f":
        return
    for start, rows in _blocks(column):
        is_finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        if not is_finite.all():
            index = start + int(np.argmin(is_finite))
            raise RequestError(
                f"{what} hold a value that is not finite in sample {index} (from 0)",
                hint="Leave such samples out, or put a number in its place.",
            )


def digest_array(digest: hashlib.blake2b, array: NDArray[Any]) -> None:
    """Add an array to a digest; above 256 MiB, add its shape and 256 evenly spaced MiB."""
    if array.nbytes <= _NUM_BLOCKS * _BLOCK_BYTES:
        digest.update(np.ascontiguousarray(array).data)
        return
    digest.update(repr(array.shape).encode())
    for _, rows in _blocks(array):
        digest.update(np.ascontiguousarray(rows).data)


def _blocks(array: NDArray[Any]) -> list[tuple[int, NDArray[Any]]]:
    """Return the array or evenly spaced blocks of it, each with the index of its first row."""
    if array.nbytes <= _NUM_BLOCKS * _BLOCK_BYTES:
        return [(0, array)]
    num_rows = max(1, _BLOCK_BYTES // array[:1].nbytes)
    starts = np.linspace(0, len(array) - num_rows, _NUM_BLOCKS, dtype=np.int64)
    return [(int(start), array[start : start + num_rows]) for start in starts]
