"""HKube's storage on a file system, for results and inputs by v2 and v3.

A file is a header of eight bytes and a value. Its path, ``CLUSTER-hkube/JOB/TASK`` below the
storage's directory, comes from the algorithm and is not trusted.

Source: hkube_python_wrapper 2.4.2, util/encoding.py, storage/fs_adapter.py, task_output_manager.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tarmac.hkube.protocol.files import read_made
from tarmac.hkube.protocol.messages import ProtocolError
from tarmac.hkube.protocol.values import Encoding, dump_value, load_value

_HEADER_BYTES = 8
_MAGIC = b"HK"
_RAW, _ENCODED = 1, 2
_ENCODINGS: dict[int, Encoding] = {1: "bson", 2: "json", 3: "msgpack"}


def stored_bytes(value: Any, encoding: Encoding) -> bytes:
    """Return the content of a file in the storage: bytes unchanged, other values encoded.

    Raises:
        ProtocolError: The encoding cannot carry the value.
    """
    number = next(number for number, name in _ENCODINGS.items() if name == encoding)
    if isinstance(value, bytes):
        kind, payload = _RAW, value
    else:
        dumped = dump_value(value, encoding)
        kind, payload = _ENCODED, dumped.encode() if isinstance(dumped, str) else dumped
    return bytes([1, _HEADER_BYTES, kind, number, 0, 0]) + _MAGIC + payload


def read_stored(directory: Path, path: object, *, max_bytes: int) -> Any:
    """Read a value that an algorithm has stored, and remove its file.

    Args:
        directory: Directory of the storage, which ``path`` must stay below.
        path: Path of the file below ``directory``, as the algorithm names it.
        max_bytes: Largest file in bytes. A larger file is refused.

    Raises:
        ProtocolError: The file does not exist below the directory, or has no valid header.
    """
    content = memoryview(_taken(directory, path, max_bytes))
    header, payload = bytes(content[:_HEADER_BYTES]), content[_HEADER_BYTES:]
    if len(header) < _HEADER_BYTES or not header.endswith(_MAGIC):
        raise ProtocolError(f"{path!r} in the storage has no header of HKube's")
    if header[2] == _RAW:
        return bytes(payload)
    if header[3] not in _ENCODINGS:
        raise ProtocolError(f"{path!r} in the storage has the unknown encoding {header[3]}")
    try:
        return load_value(payload, _ENCODINGS[header[3]])
    except ProtocolError as error:
        raise ProtocolError(f"{path!r} in the storage cannot be read: {error.message}") from error


def _taken(directory: Path, path: object, max_bytes: int) -> bytes:
    if not isinstance(path, str) or not path:
        raise ProtocolError("a result in the storage has no path")
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ProtocolError(f"{path!r} is no path below the storage")
    try:
        return read_made(directory, parts, max_bytes=max_bytes, is_removed=True)
    except ProtocolError as error:
        raise ProtocolError(f"{path!r} in the storage: {error.message}") from error
    except (OSError, UnicodeError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise ProtocolError(f"{path!r} in the storage cannot be read: {reason}") from error
