"""The results of a run's tasks, appended to one file; the journal has their positions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tarmac.errors import TarmacError
from tarmac.files import read_errors, storage_errors
from tarmac.hkube.values import pack, unpack

# Offset and size in bytes.
Place = tuple[int, int]

# Below Linux's bound of 2 GiB for one read or write.
_MAX_AT_ONCE = 2**30


class Results:
    """A file of values, one after another. One process may write at a time.

    Call `sync` before the journal refers to a value. Data of a killed writer that the journal does
    not know is ignored.

    Args:
        path: File of the values. Created if it does not exist.

    Raises:
        StorageError: The file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with storage_errors(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o666)

    def append(self, value: Any) -> Place:
        """Store a value.

        Returns:
            Offset and size of the value in bytes.

        Raises:
            StorageError: The value could not be written; the file is unchanged.
            TarmacError: The value is of a kind that cannot be stored.
        """
        packed = pack(value)
        with storage_errors(self._path):
            start = os.fstat(self._file).st_size
            try:
                view = memoryview(packed)
                while view:
                    view = view[os.write(self._file, view[:_MAX_AT_ONCE]) :]
            except BaseException:
                os.ftruncate(self._file, start)
                raise
        return start, len(packed)

    def sync(self) -> None:
        """Return when all stored values are on the disk.

        Raises:
            StorageError: They could not be written.
        """
        with storage_errors(self._path):
            os.fdatasync(self._file)

    def read(self, place: Place) -> Any:
        """Return a stored value.

        Raises:
            TarmacError: The value is missing or damaged.
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
        """Close the file."""
        os.close(self._file)
