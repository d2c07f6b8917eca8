"""Names of what is written under another name first, and the removal of what the killed have left.

A temporary name says which process writes there. Whoever comes next to the directory and owns the
file removes it once that process is dead; where it belongs to another host or an earlier start of
the machine, or an older version has named it, once nobody has written to it for a day.

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
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Untouched for so long, a file whose writer cannot be asked about has none.
_ABANDONED_AFTER_S = 86_400.0

# ".KERNEL-PID-START-DRAW.part". What is being removed, and what replaces something, likewise; among
# other programs' temporary files it says whose it is.
_NAME = re.compile(
    r"(?:tarmac)?\.([0-9a-f]{8})-(\d+)-(\d+)-[0-9a-f]{8}\.(part|removed|old|lease|scratch)"
)

# As versions before this had it.
_OLD_NAME = re.compile(
    r"\.(?:[0-9a-f]{16}\.(part|new|old|lease)|.+\.[0-9a-f]{8}\.(part|removed)|export-[a-z0-9_]{8})"
)


def temporary_path(directory: Path, suffix: str = ".part") -> Path:
    """Return a name that nothing has, for this process to write to.

    Args:
        directory: Directory that the name lies in; it is not created.
        suffix: ``.part``, ``.removed``, ``.old``, ``.lease`` or ``.scratch``. What is
            ``.old`` is left to whoever knows what it was.
    """
    pid = os.getpid()
    name = f".{_short_kernel()}-{pid}-{_own_start(pid)}-{secrets.token_hex(4)}{suffix}"
    return directory / name


@contextlib.contextmanager
def temporary_directory(directory: Path) -> Iterator[Path]:
    """Make a directory in another, which is removed when the block ends.

    Raises:
        OSError: It cannot be made.
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
    """Make a directory of this user's alone, which is removed when the block ends.

    What processes that were killed have left of the kind is removed first.

    Args:
        place: Parent directory. Default: Python's directory for temporary files.

    Raises:
        OSError: It cannot be made.
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
    """Remove what processes have left in a directory that were killed, where it is this user's."""
    for path in abandoned(directory, "part", "removed", "new", "lease", None):
        remove_tree(path)


@functools.lru_cache(maxsize=1024)
def sweep_once(directory: Path) -> None:
    """Call `remove_abandoned` where this process has not done so lately."""
    remove_abandoned(directory)


def abandoned(directory: Path, *kinds: str | None) -> Iterator[Path]:
    """Yield this user's temporary files and directories whose writer is dead.

    Args:
        directory: Directory to scan, without its subdirectories. A missing directory yields
            nothing.
        kinds: Their suffixes without the dot; None for the directories of older versions' exports.
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
    """Remove a file or a directory, as far as that can be done: another may remove it meanwhile."""
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
    shutil.rmtree(path, ignore_errors=True)


@functools.cache
def kernel_name() -> str:
    """Name this start of the machine, and the namespace whose process numbers are seen here."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()} {boot} {Path('/proc/self/ns/pid').readlink()}"


def start_ticks(pid: int) -> int | None:
    """Return when a process began; None where there is none, or only what is left of one."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # proc(5): fields 3, the state, and 22; the second is a name that may hold anything.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


@functools.cache
def _short_kernel() -> str:
    try:
        name = kernel_name()
    except OSError:
        # Of no kernel that anybody asks: left for a day.
        name = secrets.token_hex(8)
    return hashlib.blake2b(name.encode(), digest_size=4).hexdigest()


@functools.lru_cache(maxsize=1)
def _own_start(pid: int) -> int:
    return start_ticks(pid) or 0


def _is_own(entry: os.DirEntry[str]) -> bool:
    return entry.stat(follow_symlinks=False).st_uid == os.geteuid()


def _is_abandoned(path: Path, name: re.Match[str] | None) -> bool:
    # A process that could not tell its own start is one that cannot be asked about.
    if name is not None and name[1] == _short_kernel() and name[3] != "0":
        return start_ticks(int(name[2])) != int(name[3])
    newest = path.lstat().st_mtime
    for folder, _, files in os.walk(path):
        newest = max([newest, *(os.lstat(f"{folder}/{file}").st_mtime for file in [*files, "."])])
    return time.time() - newest > _ABANDONED_AFTER_S
