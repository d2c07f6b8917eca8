"""Atomic writes: to a temporary file beside the target, synced, then renamed over it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.files.leftovers import sweep_once, temporary_directory, temporary_path

# Time within which a pipe's reader must open it.
_READER_TIMEOUT_S = 60.0
_READER_PAUSE_S = 0.02


# A journal of a million events has some 300 MB.
_MAX_RECORD_BYTES = 2**30

_FAULTS_OF_DISKS = (errno.EDQUOT, errno.EIO, errno.ENOSPC)


class StorageError(TarmacError):
    """A failed read or write; the previous content is unchanged."""


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Convert an OSError while writing ``path`` into a StorageError with a hint."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_space(path, error.errno) from error
        if error.errno == errno.EFBIG:
            raise StorageError(
                f"{path} would be larger than a file may be here",
                hint="See the limit, in KiB: ulimit -f. A file system may have one too.",
            ) from error
        raise StorageError(f"cannot write {path}: {os.strerror(error.errno or 0)}") from error


@contextlib.contextmanager
def output_errors(runs: str, output: Path) -> Iterator[None]:
    """Convert an OSError at a run's creation into a RequestError that suggests another directory.

    A full or broken disk is no fault of the request and raises a StorageError.

    Args:
        runs: Name of the content in the plural, such as ``runs``.
        output: Directory where runs are created.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FAULTS_OF_DISKS:
            with storage_errors(output):
                raise
        raise RequestError(
            f"{runs} cannot be made in {output}: {os.strerror(error.errno or 0)}",
            hint="Name another directory with --output.",
        ) from error


@contextlib.contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Convert an OSError while reading ``path`` into a StorageError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise StorageError(f"cannot read {path}: {reason}") from error


@contextlib.contextmanager
def open_regular(path: Path, *, within: Path | None = None) -> Iterator[IO[bytes]]:
    """Open a file of a run for reading.

    Only regular files are opened: another user may have put a pipe there, which would block a
    reader for ever.

    Args:
        path: File to open for reading, in binary mode.
        within: Directory that the file must be in after following links. Default: any. Needed for
            files that are shown to others: a link may lead to the reader's own files.

    Raises:
        OSError: The file is missing, unreadable, not regular, or outside `within`.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        opened = os.fdopen(descriptor, "rb")
    except OSError:
        # For a directory, `fdopen` raises without closing the descriptor.
        os.close(descriptor)
        raise
    with opened as file:
        # Checked on the open descriptor, because a link may change before the opening.
        if within is not None and not _is_within(descriptor, within):
            raise OSError(errno.EXDEV, f"it lies outside of {within.name}", str(path))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENOTSUP, "it is not a regular file", str(path))
        yield file


@contextlib.contextmanager
def open_record(path: Path) -> Iterator[IO[bytes]]:
    """Open a record of a run of at most 1 GiB; see `open_regular`.

    The limit protects the reader's memory: a sparse file takes no space on the disk.

    Raises:
        OSError: As for `open_regular`, or the file has more than 1 GiB.
    """
    with open_regular(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > _MAX_RECORD_BYTES:
            raise OSError(errno.EFBIG, f"it is too large for a record: {size:,} bytes", str(path))
        yield file


def read_regular(path: Path) -> bytes:
    """Return the content of a record of a run; see `open_record`.

    The read stops at the file's size: a link may lead to an endless file of ``/proc``, whose size
    is 0.
    """
    with open_record(path) as file:
        return file.read(os.fstat(file.fileno()).st_size)


@contextlib.contextmanager
def atomic_writer(path: Path, *, is_private: bool = False) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces ``path`` when the block ends, and only then.

    Missing parent directories are created. After a crash at any moment, ``path`` has either its
    previous or the complete new content, because data reach the disk before the name does. A
    device, a pipe or a socket, such as ``/dev/stdout``, is written to directly. A pipe's reader
    must open the pipe within 60 s: a pipe in the place of a run's file may have no reader.

    Args:
        path: File to write or replace, or a device, pipe or socket to write to.
        is_private: Whether only the owner may read the file, from its first byte on. Default False.

    Raises:
        StorageError: The file could not be written; ``path`` is unchanged.
    """
    if _is_stream(path):
        with storage_errors(path), _open_stream(path) as stream:
            yield stream
        return
    with storage_errors(path):
        make_directories(path.parent)
        sweep_once(path.parent)
        temporary = temporary_path(path.parent)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o600 if is_private else 0o666)
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def write_bytes(path: Path, content: bytes, *, is_private: bool = False) -> None:
    """Write a file atomically; see `atomic_writer`."""
    with atomic_writer(path, is_private=is_private) as file:
        file.write(content)


def write_text(path: Path, content: str, *, is_private: bool = False) -> None:
    """Write a UTF-8 file atomically; see `atomic_writer`."""
    write_bytes(path, content.encode(), is_private=is_private)


def write_json(path: Path, value: object) -> None:
    """Write an indented JSON file atomically; see `atomic_writer`."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def replace_directory(temporary: Path, path: Path) -> None:
    """Rename a finished directory over another one, and sync the new name to the disk.

    Args:
        temporary: Finished directory on the same file system; its files have reached the disk.
        path: Final name of the directory. An existing directory there is removed first.

    Raises:
        OSError: The directory could not be renamed.
    """
    sync_directory(temporary)
    shutil.rmtree(path, ignore_errors=True)
    temporary.replace(path)
    sync_directory(path.parent)


def replace_file(temporary: Path, path: Path) -> None:
    """Sync a finished file to the disk, and rename it over another one.

    Args:
        temporary: Finished file on the same file system.
        path: Final name of the file. An existing file there is replaced.

    Raises:
        OSError: The file could not be renamed.
    """
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Create a directory that gets its name when the block ends, and only then.

    A process killed within the block leaves a temporary directory, which a later process removes.

    Args:
        path: Final path of the directory, which must not exist.

    Yields:
        The directory, under a temporary name.

    Raises:
        OSError: The directory cannot be created.
    """
    make_directories(path.parent)
    with temporary_directory(path.parent) as made:
        yield made
        made.rename(path)
        sync_directory(path.parent)


def make_directories(path: Path) -> None:
    """Create a directory and its missing parents, and sync their names to the disk.

    Raises:
        OSError: A directory cannot be created.
    """
    # A single stat: another thread or process may create the directory between two calls.
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        make_directories(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)
    else:
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def _is_within(descriptor: int, directory: Path) -> bool:
    real = Path(f"/proc/self/fd/{descriptor}").readlink()
    return real.is_relative_to(os.path.realpath(directory))


def _is_stream(path: Path) -> bool:
    """Whether a path must not be replaced by a file: root could replace ``/dev/null``."""
    try:
        mode = path.stat().st_mode
        parent = path.parent.resolve()
    except OSError:
        return False
    # /dev/stdout may be a link to a file, but is no file itself.
    is_descriptor = str(parent) == "/dev" or parent.is_relative_to("/proc")
    return is_descriptor or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _open_stream(path: Path) -> IO[bytes]:
    end = time.monotonic() + _READER_TIMEOUT_S
    while path.is_fifo():
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() >= end:
                raise StorageError(
                    f"cannot write {path}: it is a pipe without a reader",
                    hint=f"If it is in the place of a file: rm {quoted(path)}",
                ) from error
            time.sleep(_READER_PAUSE_S)
        else:
            os.set_blocking(descriptor, True)
            return os.fdopen(descriptor, "wb")
    return path.open("wb")


def sync_directory(directory: Path) -> None:
    """Sync the names in a directory to the disk.

    Directories that this user may write but not read, and file systems without this operation, are
    skipped.
    """
    with contextlib.suppress(PermissionError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(descriptor)


def _no_space(path: Path, code: int) -> StorageError:
    if _is_stream(path):
        return StorageError(f"no space left to write {path}", hint="Its target is full.")
    elsewhere = "or name another place to write to."
    if code == errno.EDQUOT:
        return StorageError(
            f"your quota leaves no space to write {path}",
            hint=f"Remove some files, {elsewhere} See the quota: quota -s",
        )
    free = ""
    with contextlib.suppress(OSError):
        space = os.statvfs(path.parent)
        # Some file systems have no fixed number of inodes, and report 0 of 0.
        if space.f_files and not space.f_favail:
            look = f"df -i {quoted(path.parent)}"
            return StorageError(
                f"no inodes left to write {path}",
                hint=f"Remove some files, {elsewhere} See what is left: {look}",
            )
        free = f" {space.f_bavail * space.f_frsize / 2**20:.0f} MiB are free there."
    return StorageError(f"no space left to write {path}", hint=f"Free some, {elsewhere}{free}")
