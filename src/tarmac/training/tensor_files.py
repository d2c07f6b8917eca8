"""Files of tensors with a checksum over all their bytes, which every read checks.

The checksum is CRC-32, as in ZIP and PNG. CRC-32 finds bits that flip on a disk or in transfer. It
does not stop forgery: an attacker who can forge weights can forge any digest stored beside them.
CRC-32 takes 25 ms for 100 MB. SHA-256 takes 58 ms with the processor's instructions for it, and
several times that without.

Example:
    >>> import torch
    >>> write_tensors(tmp_path / "model.safetensors", {"weight": torch.ones(2)})
    >>> with open_tensors(tmp_path / "model.safetensors") as file:
    ...     file.get_tensor("weight").tolist()
    [1.0, 1.0]
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import torch
from safetensors import safe_open
from safetensors.torch import save

from tarmac.files import atomic_writer, open_regular

_KEY = "tarmac_checksum"

# The checksum is in the header, which it covers too. This value replaces it in the computation.
_BLANK = b"00000000"
_IN_HEADER = re.compile(b'"%s":"(.{8})' % _KEY.encode(), re.DOTALL)

_LENGTH_BYTES = 8
# Limit of the safetensors format.
_MAX_HEADER_BYTES = 100_000_000
_CHUNK_BYTES = 2**20


def write_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a whole safetensors file or nothing.

    Args:
        path: Safetensors file to write, whole or not at all.
        tensors: Tensors by name, on the CPU and contiguous; no two share memory.
        metadata: Texts for the file's header.

    Raises:
        StorageError: The file could not be written; ``path`` is unchanged.
    """
    content = memoryview(save(dict(tensors), metadata={**(metadata or {}), _KEY: _BLANK.decode()}))
    header_end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
    place = _IN_HEADER.search(bytes(content[:header_end]))
    assert place is not None, "the metadata have it"
    with atomic_writer(path) as file:
        file.write(content[: place.start(1)])
        file.write(_in_hex(zlib.crc32(content)).encode())
        file.write(content[place.end(1) :])


@contextlib.contextmanager
def open_tensors(path: Path) -> Iterator[Any]:
    """Open a safetensors file for PyTorch; a file without a checksum is not checked.

    Raises:
        SafetensorError: The file is no safetensors file.
        OSError: The file cannot be read.
        ValueError: The stored checksum differs from that of the file's bytes.
    """
    with (
        open_regular(path) as file,
        # Open by the descriptor, as safetensors takes only paths that are UTF-8.
        safe_open(f"/proc/self/fd/{file.fileno()}", framework="pt") as opened,
    ):
        # safe_open has already refused a file whose size differs from its header's, however large.
        _check_tensors(file)
        yield opened


def file_checksum(path: Path) -> str:
    """Return the checksum of a whole file.

    Raises:
        OSError: The file cannot be read.
    """
    with open_regular(path) as file:
        return _in_hex(_checksum(file))


def _check_tensors(file: IO[bytes]) -> None:
    # Some files of /proc, to which a link may lead, return None as they have nothing to read yet.
    length = file.read(_LENGTH_BYTES) or b""
    # A damaged length may exceed the memory, so the file's size bounds it.
    num_bytes = min(int.from_bytes(length, "little"), file.seek(0, 2), _MAX_HEADER_BYTES)
    file.seek(_LENGTH_BYTES)
    header = file.read(num_bytes) or b""
    place = _IN_HEADER.search(header)
    if place is None:
        return
    blank = header[: place.start(1)] + _BLANK + header[place.end(1) :]
    checksum = _in_hex(_checksum(file, zlib.crc32(blank, zlib.crc32(length))))
    if checksum != (expected := place[1].decode(errors="replace")):
        raise ValueError(f"its checksum is {checksum}, expected {expected}")


def _checksum(file: IO[bytes], start: int = 0) -> int:
    while chunk := file.read(_CHUNK_BYTES):
        start = zlib.crc32(chunk, start)
    return start


def _in_hex(checksum: int) -> str:
    return f"{checksum:08x}"
