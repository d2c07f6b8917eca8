"""Find a dataset's files on disk, and compare them with their checksums."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterable
from pathlib import Path

from tarmac.data.sources import DataFile, Source
from tarmac.errors import TarmacError


class DamagedFileError(TarmacError):
    """A data file differs from the published file."""


def spellings(file: DataFile) -> tuple[str, ...]:
    """Return the names that a file may have on disk, the usual names first."""
    # The archive on the original page unpacked to train-images.idx3-ubyte.
    names = (file.name, file.name.replace("-idx", ".idx"))
    return tuple(dict.fromkeys(name + suffix for name in names for suffix in ("", ".gz")))


def find(source: Source, file: DataFile, directories: Iterable[Path]) -> Path | None:
    """Return the first path of a file of ``source`` in the directories, or None."""
    inner = ("", "cifar-10-batches-py", "cifar-10-batches-bin") if source.kind == "cifar" else ("",)
    for directory in directories:
        for folder in inner:
            for name in spellings(file):
                path = directory / folder / name
                if path.is_file():
                    return path
    return None


def read_checked(file: DataFile, path: Path, *, compressed: bool) -> bytes:
    """Read a file, decompress it, and compare it with its checksum.

    Args:
        file: Expected file, with its checksums.
        path: Path of the file, under any name.
        compressed: Whether the file is compressed with gzip.

    Raises:
        DamagedFileError: The file is truncated, corrupt, or another file.
        TarmacError: The file cannot be read.
    """
    try:
        stored = path.read_bytes()
    except OSError as error:
        raise TarmacError(f"cannot read {path}: {error.strerror}") from error
    content = stored
    if compressed:
        if file.gz_md5 is not None:
            _compare(path, stored, file.gz_md5)
        try:
            content = gzip.decompress(stored)
        except (OSError, EOFError, zlib.error) as error:
            raise DamagedFileError(f"{path} is damaged: {error}") from error
    if file.md5 is not None:
        _compare(path, content, file.md5)
    return content


def _compare(path: Path, content: bytes, expected: str) -> None:
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if digest != expected:
        raise DamagedFileError(
            f"{path} is damaged: its content has MD5 {digest}, expected {expected} "
            f"({len(content):,} bytes)"
        )
