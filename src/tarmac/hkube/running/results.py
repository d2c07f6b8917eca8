"""Results of a run's tasks, in one file that grows; the journal says where each is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tarmac.errors import TarmacError
from tarmac.files import read_errors, storage_errors
from tarmac.hkube.values import pack, unpack

if TYPE_CHECKING:
    from pathlib import Path

# Offset and size in bytes.
Place = tuple[int, int]

# One read or write takes at most 2 GiB, on Linux.
_MAX_AT_ONCE = 2**30


class Results:
    """Values one after another in a file. One process may write at a time.

    A value is in the kernel's hands when `append` returns. What a killed writer has left behind the
    last value that the journal knows is passed over.

    Args:
        path: The file; made if it is not there.

    Raises:
        StorageError: It cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with storage_errors(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o666)

    def append(self, value: Any) -> Place:
        """Store a value.

        Returns:
            Where it is.

        Raises:
            StorageError: It could not be written; the file is as it was.
            TarmacError: It cannot be stored at all.
        """
        packed = pack(value)
        with storage_errors(self._path):
            start = os.fstat(self._file).st_size
            try:
                view = memoryview(packed)
                while view:
                    view = view[os.write(self._file, view[:_MAX_AT_ONCE]) :]
                # The journal says next that it is there.
                os.fdatasync(self._file)
            except BaseException:
                os.ftruncate(self._file, start)
                raise
        return start, len(packed)

    def read(self, place: Place) -> Any:
        """Return a stored value.

        Raises:
            TarmacError: It is not there, or damaged.
        """
        start, size = place
        parts = []
        with read_errors(self._path):
            while size > 0:
                part = os.pread(self._file, min(size, _MAX_AT_ONCE), start)
                if not part:
                    raise TarmacError(
                        f"{self._path} is damaged: it ends before byte {start + size}"
                    )
                parts.append(part)
                start, size = start + len(part), size - len(part)
        try:
            return unpack(parts[0] if len(parts) == 1 else b"".join(parts))
        except TarmacError as error:
            raise TarmacError(f"{self._path}: {error.message}") from error

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)
