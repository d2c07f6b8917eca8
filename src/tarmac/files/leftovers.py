"""Temporary names, and the removal of files that killed processes left.

A temporary name identifies the writing process. The next process that uses the directory removes
its own user's files of dead processes. A file of another host, of an earlier start of the machine,
or named by an older version is removed after a day without writes.

Example:
    >>> from tarmac.files import remove_abandoned, temporary_path
    >>> mine = temporary_path(tmp_path)
    >>> _ = mine.write_text("half of it")
    >>> remove_abandoned(tmp_path)
    >>> mine.exists()
    True
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tarmac.process_ids import boot_id, start_ticks

# Time without writes after which a file of an unknown process counts as abandoned.
_ABANDONED_AFTER_S = 86_400.0

# ".KERNEL-PID-START-DRAW.part". Files being removed or replaced have the same form. Among other
# programs' temporary files, the name begins with "tarmac".
_NAME = re.compile(
    r"(?:tarmac)?\.([0-9a-f]{8})-(\d+)-(\d+)-[0-9a-f]{8}\.(part|removed|old|lease|scratch)"
)

# Names of earlier versions.
_OLD_NAME = re.compile(
    r"\.(?:[0-9a-f]{16}\.(part|new|old|lease)|.+\.[0-9a-f]{8}\.(part|removed)|export-[a-z0-9_]{8})"
)


def temporary_path(directory: Path, suffix: str = ".part") -> Path:
    """Return an unused path for this process to write to.

    Args:
        directory: Directory that the name lies in; it is not created.
        suffix: ``.part``, ``.removed``, ``.old``, ``.lease`` or ``.scratch``. `remove_abandoned`
            leaves ``.old`` to the code that knows its content.
    """
    pid = os.getpid()
    name = f".{_short_kernel()}-{pid}-{_own_start(pid)}-{secrets.token_hex(4)}{suffix}"
    return directory / name


@contextlib.contextmanager
def temporary_directory(directory: Path) -> Iterator[Path]:
    """Create a directory in another one; remove it when the block ends.

    Raises:
        OSError: The directory cannot be created.
    """
    remove_abandoned(directory)
    path = temporary_path(directory)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        remove_tree(path)


@contextlib.contextmanager
def scratch_directory(place: str | Path | None = None) -> Iterator[Path]:
    """Create a directory that only this user can open; remove it when the block ends.

    Such directories of killed processes are removed first.

    Args:
        place: Parent directory. Default: Python's directory for temporary files.

    Raises:
        OSError: The directory cannot be created.
    """
    root = Path(place or tempfile.gettempdir())
    for path in abandoned(root, "scratch"):
        remove_tree(path)
    hidden = temporary_path(root, ".scratch")
    path = hidden.with_name("tarmac" + hidden.name)
    path.mkdir(mode=0o700)
    try:
        yield path
    finally:
        remove_tree(path)


def remove_abandoned(directory: Path) -> None:
    """Remove this user's files that killed processes left in a directory."""
    for path in abandoned(directory, "part", "removed", "new", "lease", None):
        remove_tree(path)


@functools.lru_cache(maxsize=1024)
def sweep_once(directory: Path) -> None:
    """Call `remove_abandoned`, but not again for a recently cleaned directory."""
    remove_abandoned(directory)


def abandoned(directory: Path, *kinds: str | None) -> Iterator[Path]:
    """Yield this user's temporary files and directories whose writer is dead.

    Args:
        directory: Directory to scan, without its subdirectories. A missing directory yields
            nothing.
        kinds: Suffixes to match, without the dot; None for exports of older versions.
    """
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if not entry.name.startswith((".", "tarmac.")):
                continue
            new, old = _NAME.fullmatch(entry.name), _OLD_NAME.fullmatch(entry.name)
            kind = new[4] if new else (old[1] or old[2]) if old else ""
            with contextlib.suppress(OSError):
                if kind in kinds and _is_own(entry) and _is_abandoned(Path(entry.path), new):
                    yield Path(entry.path)


def remove_tree(path: Path) -> None:
    """Remove a file or a directory as far as possible: another process may remove it too."""
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
    shutil.rmtree(path, ignore_errors=True)


@functools.cache
def kernel_name() -> str:
    """Return a name for this start of the machine and this process's PID namespace."""
    return f"{socket.gethostname()} {boot_id()} {Path('/proc/self/ns/pid').readlink()}"


@functools.cache
def _short_kernel() -> str:
    try:
        name = kernel_name()
    except OSError:
        # A random name matches no kernel, so the file stays for a day.
        name = secrets.token_hex(8)
    return hashlib.blake2b(name.encode(), digest_size=4).hexdigest()


@functools.lru_cache(maxsize=1)
def _own_start(pid: int) -> int:
    return start_ticks(pid) or 0


def _is_own(entry: os.DirEntry[str]) -> bool:
    return entry.stat(follow_symlinks=False).st_uid == os.geteuid()


def _is_abandoned(path: Path, name: re.Match[str] | None) -> bool:
    # A start of 0 means that the writer could not read its own start time.
    if name is not None and name[1] == _short_kernel() and name[3] != "0":
        return start_ticks(int(name[2])) != int(name[3])
    newest = path.lstat().st_mtime
    for folder, _, files in os.walk(path):
        newest = max([newest, *(os.lstat(f"{folder}/{file}").st_mtime for file in [*files, "."])])
    return time.time() - newest > _ABANDONED_AFTER_S
