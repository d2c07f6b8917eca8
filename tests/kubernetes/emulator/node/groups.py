"""A container's memory limit: by a control group, or where none can be made by looking."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

_MOUNTED = Path("/sys/fs/cgroup")


class MemoryGroup:
    """Limits what the processes of one container use together.

    Attributes:
        files: Into which a process writes its number to be limited.
        is_polled: Whether somebody has to look, as no control group could be made.
    """

    def __init__(self, name: str, limit_bytes: int | None) -> None:
        self._limit = limit_bytes
        self._path: Path | None = None
        self._was_over = False
        if limit_bytes is not None:
            with contextlib.suppress(OSError):
                self._path = _make(name, limit_bytes)
        self.files = (self._path / "cgroup.procs",) if self._path else ()
        self.is_polled = limit_bytes is not None and self._path is None

    def is_over(self, pid: int) -> bool:
        """Whether a process and its children use more than they may."""
        used = 0
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            for each in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    used += each.memory_info().rss
        self._was_over = self._limit is not None and used > self._limit
        return self._was_over

    def has_killed(self) -> bool:
        """Whether the limit has ended a process."""
        if self._path is None:
            return self._was_over
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                for line in (self._path / name).read_text(encoding="ascii").splitlines():
                    key, value = line.split()
                    if key == "oom_kill" and int(value) > 0:
                        return True
        return False

    def remove(self) -> None:
        """Take the group away."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.rmdir()


def _make(name: str, limit_bytes: int) -> Path | None:
    is_unified = (_MOUNTED / "cgroup.controllers").exists()
    above = _MOUNTED if is_unified else _MOUNTED / "memory"
    if not above.is_dir():
        return None
    path = above / name
    path.mkdir()
    try:
        file = "memory.max" if is_unified else "memory.limit_in_bytes"
        (path / file).write_text(str(limit_bytes), encoding="ascii")
        if is_unified:
            (path / "memory.oom.group").write_text("1", encoding="ascii")
        with contextlib.suppress(OSError):
            swap = "memory.swap.max" if is_unified else "memory.memsw.limit_in_bytes"
            (path / swap).write_text("0" if is_unified else str(limit_bytes), encoding="ascii")
    except OSError:
        path.rmdir()
        raise
    return path
