"""Atomic writes: to a temporary file beside the target, synced, then renamed over it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.files.leftovers import sweep_once, temporary_directory, temporary_path

if TYPE_CHECKING:
    from collections.abc import Iterator

# How long a pipe's reader may take to open it.
_READER_TIMEOUT_S = 60.0
_READER_PAUSE_S = 0.02


# A journal of a million events has some 300 MB.
_MAX_RECORD_BYTES = 2**30

_FAULTS_OF_DISKS = (errno.EDQUOT, errno.EIO, errno.ENOSPC)


class StorageError(TarmacError):
    """Something could not be read or written; what was there before is unchanged."""


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an OSError while writing ``path`` into a StorageError that says what to do."""
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
    """Turn an OSError while a run's directory is made into a RequestError that asks for another.

    A disk that is full or broken is no fault of the request: that is a StorageError.

    Args:
        runs: What lies there, in the plural.
        output: Where runs are made.
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
    """Turn an OSError while reading ``path`` into a StorageError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise StorageError(f"cannot read {path}: {reason}") from error


@contextlib.contextmanager
def open_regular(path: Path, *, within: Path | None = None) -> Iterator[IO[bytes]]:
    """Open a file of a run to read it.

    A pipe in its place, which another user may have made, would keep a reader waiting for ever.

    Args:
        path: File to open for reading, in binary mode.
        within: The directory that it must lie in, wherever links lead. Default: any. Whatever is
            shown to others than its reader is read so: a link may lead to the reader's own files.

    Raises:
        OSError: It is not there, cannot be read, is no regular file, or lies elsewhere.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        opened = os.fdopen(descriptor, "rb")
    except OSError:
        # It is a folder, whose descriptor is left open.
        os.close(descriptor)
        raise
    with opened as file:
        # Of the file that is open, as a link may change between a look and the opening.
        if within is not None and not _is_within(descriptor, within):
            raise OSError(errno.EXDEV, f"it lies outside of {within.name}", str(path))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENOTSUP, "it is no regular file", str(path))
        yield file


@contextlib.contextmanager
def open_record(path: Path) -> Iterator[IO[bytes]]:
    """Open a record of a run, which is read whole or by lines; see `open_regular`.

    A hole in a file takes no room on the disk, and all of the memory of who reads it.

    Raises:
        OSError: As `open_regular` does; or it has more than 1 GiB.
    """
    with open_regular(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > _MAX_RECORD_BYTES:
            raise OSError(errno.EFBIG, f"it is too large for a record: {size:,} bytes", str(path))
        yield file


def read_regular(path: Path) -> bytes:
    """Return what a record of a run holds; see `open_record`.

    No more than its size now: files of ``/proc``, where a link may lead, have none and no end.
    """
    with open_record(path) as file:
        return file.read(os.fstat(file.fileno()).st_size)


@contextlib.contextmanager
def atomic_writer(path: Path, *, is_private: bool = False) -> Iterator[IO[bytes]]:
    """Open a binary file that replaces ``path`` when the block ends, and only then.

    Missing parent directories are made. After a crash at any moment ``path`` holds either what it
    held before or all that was written, because data reach the disk before the name does. A device,
    a pipe or a socket, such as ``/dev/stdout``, is written into as it stands. A pipe's reader is
    waited for up to 60 s: a pipe may also lie in the place of a run's file, which nobody reads.

    Args:
        path: File to write or replace; or a device, pipe or socket to write into.
        is_private: Whether its owner alone may read it, from its first byte on.

    Raises:
        StorageError: It could not be written; ``path`` is as it was.
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
    """Write a whole file or nothing; see `atomic_writer`."""
    with atomic_writer(path, is_private=is_private) as file:
        file.write(content)


def write_text(path: Path, content: str, *, is_private: bool = False) -> None:
    """Write a whole UTF-8 file or nothing; see `atomic_writer`."""
    write_bytes(path, content.encode(), is_private=is_private)


def write_json(path: Path, value: object) -> None:
    """Write a whole, indented JSON file or nothing; see `atomic_writer`."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def replace_directory(temporary: Path, path: Path) -> None:
    """Give a whole directory its name, in the place of what had it, and see that the disk knows it.

    Args:
        temporary: Finished directory on the same file system; its files have reached the disk.
        path: Final name of the directory. An existing directory there is removed first.

    Raises:
        OSError: It could not be.
    """
    sync_directory(temporary)
    shutil.rmtree(path, ignore_errors=True)
    temporary.replace(path)
    sync_directory(path.parent)


def replace_file(temporary: Path, path: Path) -> None:
    """Give a whole file its name, whoever has written it, once the disk has what is in it.

    Args:
        temporary: Finished file on the same file system.
        path: Final name of the file. An existing file there is replaced.

    Raises:
        OSError: It could not be.
    """
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


@contextlib.contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Make a directory that gets its name when the block ends, and only then.

    What a process that is killed within the block leaves is removed by whoever comes next.

    Args:
        path: The name, which nothing has.

    Yields:
        The directory, under a temporary name.

    Raises:
        OSError: It cannot be made.
    """
    make_directories(path.parent)
    with temporary_directory(path.parent) as made:
        yield made
        made.rename(path)
        sync_directory(path.parent)


def make_directories(path: Path) -> None:
    """Make a directory and those above it that are missing, and see that the disk knows them.

    Raises:
        OSError: It cannot be made.
    """
    # One look: another thread or process may make it between two.
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
    """Whether no file may take the place of what is there: root could replace ``/dev/null``."""
    try:
        mode = path.stat().st_mode
        parent = path.parent.resolve()
    except OSError:
        return False
    # /dev/stdout may lead to a file, and is none itself.
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
                    f"cannot write {path}: it is a pipe that nobody reads",
                    hint=f"Where it lies in the place of a file: rm {quoted(path)}",
                ) from error
            time.sleep(_READER_PAUSE_S)
        else:
            os.set_blocking(descriptor, True)
            return os.fdopen(descriptor, "wb")
    return path.open("wb")


def sync_directory(directory: Path) -> None:
    """See that the disk knows the names in a directory.

    One that this user may write but not read cannot be asked for that, nor on file systems that
    know nothing of it.
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
        return StorageError(
            f"no space left to write {path}", hint="What it leads to takes no more."
        )
    elsewhere = "or name another place to write to."
    if code == errno.EDQUOT:
        return StorageError(
            f"your quota leaves no space to write {path}",
            hint=f"Remove some files, {elsewhere} See the quota: quota -s",
        )
    free = ""
    with contextlib.suppress(OSError):
        space = os.statvfs(path.parent)
        # Some file systems have no fixed number of them, and say 0 of 0.
        if space.f_files and not space.f_favail:
            look = f"df -i {quoted(path.parent)}"
            return StorageError(
                f"no inodes left to write {path}",
                hint=f"Remove some files, {elsewhere} See what is left: {look}",
            )
        free = f" {space.f_bavail * space.f_frsize / 2**20:.0f} MiB are free there."
    return StorageError(f"no space left to write {path}", hint=f"Free some, {elsewhere}{free}")
