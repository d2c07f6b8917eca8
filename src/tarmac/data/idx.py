"""The IDX format of MNIST and Fashion-MNIST (yann.lecun.com/exdb/mnist, "file formats")."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from tarmac.errors import TarmacError

_UNSIGNED_BYTE = 0x08


def parse_idx(content: bytes, where: str, num_dimensions: int) -> NDArray[np.uint8]:
    """Parse an uncompressed IDX file of unsigned bytes.

    Args:
        content: The whole file: two zero bytes, the type, the number of dimensions, each dimension
            as a big-endian 32-bit integer, then the values in row-major order.
        where: The file's name, for messages.
        num_dimensions: Expected number of dimensions, at least 1.

    Returns:
        A writable array of the shape in the file's header.

    Raises:
        TarmacError: The file has another format, or is truncated.
    """
    header_size = 4 + 4 * num_dimensions
    expected = bytes([0, 0, _UNSIGNED_BYTE, num_dimensions])
    if content[:4] != expected or len(content) < header_size:
        raise TarmacError(
            f"{where} is not an IDX file of unsigned bytes in {num_dimensions} dimensions: "
            f"it begins with {content[:4].hex(' ') or 'nothing'}, expected {expected.hex(' ')}"
        )
    shape = struct.unpack_from(f">{num_dimensions}I", content, 4)
    size = header_size + int(np.prod(shape, dtype=object))
    if len(content) != size:
        raise TarmacError(
            f"{where} has {len(content)} bytes, expected {size} for shape {list(shape)}"
        )
    return np.frombuffer(content, np.uint8, offset=header_size).reshape(shape).copy()
