"""Processes from ``/proc``: their users, their ancestors, and the work that they belong to.

Constant facts are read once for each process. Other facts are read every two seconds, and only for
requested processes and their ancestors: a machine has thousands of processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import re
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tarmac.masking import masked_command

# Variables that identify the work of a process; no other variable is kept.
_VARIABLES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "SLURM_ARRAY_JOB_ID",
        "SLURM_ARRAY_TASK_ID",
        "SLURM_JOB_ID",
        "TARMAC_ATTEMPT",
        "TARMAC_LAUNCH",
        "TARMAC_RUN",
        "TARMAC_TASK",
        "TARMAC_TASK_INDEX",
        "TORCHELASTIC_RUN_ID",
        "WORLD_SIZE",
    }
)

# Docker, Podman, containerd and CRI-O name control groups by the container's ID.
_CONTAINER = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")

_READ_AGAIN_S = 2.0

# Processes that were not requested for this long are dropped.
_FORGOTTEN_S = 30.0

# A process becomes another program, by exec, soon after its start or never.
_YOUNG_S = 10.0

# Limits of a command line: enough to recognize a program on the widest screen.
_MAX_BYTES = 4096
_MAX_CHARACTERS = 300

# Deeper than any process tree. It ends a cycle of parents that were read at different moments.
_MAX_ANCESTORS = 64


class FileId(NamedTuple):
    """The identity of a file, whatever its path: its device's numbers and its inode."""

    major: int
    minor: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> FileId | None:
        """Return the identity of the file at a path; None without a file."""
        try:
            status = path.stat()
        except OSError:
            return None
        return cls(os.major(status.st_dev), os.minor(status.st_dev), status.st_ino)


@dataclasses.dataclass(frozen=True)
class Process:
    """A process; None and empty strings stand for facts that this user may not read.

    Attributes:
        pid: Pid in the namespace of the monitor.
        inner_pid: Pid in the process's own namespace, such as its container.
        parent: Pid of the parent, which started or adopted it.
        command: Command line of the process, without secrets.
        is_stopped: Whether a signal has suspended it.
        tells_stack: Whether it handles SIGUSR2, with which a training prints its stacks.
        cpu_ratio: Number of cores that it recently kept busy.
        variables: Environment variables that identify its run, rank or Slurm job, such as
            ``TARMAC_RUN``.
        directory: Working directory of the process. Empty if unknown.
        group: Path of its control group. With version 1, the deepest of its groups.
        container: ID of its container, 64 hexadecimal digits. Empty outside a container.
    """

    pid: int
    inner_pid: int
    parent: int
    uid: int
    user: str | None
    command: str
    started_at: datetime
    is_own: bool = True
    is_stopped: bool = False
    tells_stack: bool = False
    cpu_ratio: float | None = None
    rss_bytes: int | None = None
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    directory: str = ""
    group: str = ""
    container: str = ""


@dataclasses.dataclass
class _Known:
    process: Process
    start_ticks: int
    cpu_s: float
    read_at: float
    is_young: bool


class ProcessTable:
    """A table of the processes in ``/proc``.

    Args:
        proc: Directory of the kernel's process files, replaced in tests.
        clock: Monotonic clock in seconds, replaced in tests.
    """

    def __init__(
        self, proc: Path = Path("/proc"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._proc = proc
        self._clock = clock
        self._known: dict[int, _Known] = {}
        self._users: dict[int, str | None] = {}
        self._children: dict[int, tuple[float, tuple[int, ...]]] = {}
        self._holders: tuple[float, Mapping[FileId, int]] | None = None
        self._booted_at = self._read_boot()
        self._tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._own_uid = os.getuid()

    def look(self, pids: Iterable[int]) -> dict[int, Process]:
        """Return processes and all their ancestors by pid, without those that have ended."""
        processes: dict[int, Process] = {}
        for pid in pids:
            at = pid
            for _ in range(_MAX_ANCESTORS):
                if at <= 0 or at in processes or (process := self._read(at)) is None:
                    break
                processes[at] = process
                at = process.parent
        forgotten = self._clock() - _FORGOTTEN_S
        for gone in [pid for pid, known in self._known.items() if known.read_at < forgotten]:
            del self._known[gone]
        for gone in [pid for pid, (at, _) in self._children.items() if at < forgotten]:
            del self._children[gone]
        return processes

    def children(self, pid: int) -> tuple[int, ...]:
        """Return the pids of a process's running children."""
        now = self._clock()
        read_at, known = self._children.get(pid, (now - _READ_AGAIN_S, ()))
        if now - read_at < _READ_AGAIN_S:
            return known
        pids: list[int] = []
        with contextlib.suppress(OSError):
            for task in (self._proc / str(pid) / "task").iterdir():
                pids += map(int, (task / "children").read_text().split())
        self._children[pid] = now, tuple(pids)
        return tuple(pids)

    def lock_holders(self) -> Mapping[FileId, int]:
        """Return the pid that holds the lock of each file, for pids that are known here."""
        now = self._clock()
        if self._holders is not None and now - self._holders[0] < _READ_AGAIN_S:
            return self._holders[1]
        holders = self._read_holders()
        self._holders = now, holders
        return holders

    def _read_holders(self) -> Mapping[FileId, int]:
        holders: dict[FileId, int] = {}
        with contextlib.suppress(OSError):
            for line in (self._proc / "locks").read_text().splitlines():
                # "1: FLOCK  ADVISORY  WRITE 3251 fe:00:1491117 0 EOF"; "1: -> FLOCK" waits for it.
                words = line.split()
                if len(words) < 6 or words[1] != "FLOCK" or not words[4].isdecimal():
                    continue
                with contextlib.suppress(ValueError):
                    major, minor, inode = words[5].split(":")
                    file = FileId(int(major, 16), int(minor, 16), int(inode))
                    holders[file] = int(words[4])
        return holders

    def locked_directories(self, pid: int, name: str) -> tuple[Path, ...]:
        """Return the directories in which a process has a file of this name open.

        For another mount namespace, the path is one that is reachable from here.
        """
        directories: list[Path] = []
        with contextlib.suppress(OSError):
            for descriptor in (self._proc / str(pid) / "fd").iterdir():
                with contextlib.suppress(OSError):
                    path = descriptor.readlink()
                    if path.name == name and path.is_absolute():
                        inside = self._proc / str(pid) / "root" / path.relative_to("/")
                        directories.append((path if path.exists() else inside).parent)
        return tuple(directories)

    def _read(self, pid: int) -> Process | None:
        now = self._clock()
        known = self._known.get(pid)
        if known is not None and now - known.read_at < _READ_AGAIN_S:
            return known.process
        try:
            # The program's name, in parentheses, may have any characters; see proc_pid_stat(5).
            fields = (self._proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
            state, parent, ticks = fields[0], int(fields[1]), int(fields[19])
            cpu_s = (int(fields[11]) + int(fields[12])) * self._tick_s
            rss_bytes = int(fields[21]) * self._page_bytes
        except (OSError, IndexError, ValueError):
            return None
        if state in (b"Z", b"X"):
            return None
        if known is not None and known.start_ticks != ticks:
            known = None
        cpu_ratio = None
        if known is not None:
            cpu_ratio = max(0.0, (cpu_s - known.cpu_s) / (now - known.read_at))
        process = known.process if known is not None and not known.is_young else None
        process = process or self._read_all(pid, parent, ticks)
        if process is None:
            return None
        process = dataclasses.replace(
            process,
            parent=parent,
            cpu_ratio=cpu_ratio,
            rss_bytes=rss_bytes,
            is_stopped=state in (b"T", b"t"),
            # Read each time, because a program that has just started has no handlers yet.
            tells_stack=_catches(_bytes_of(self._proc / str(pid) / "status"), signal.SIGUSR2),
        )
        is_young = time.time() - process.started_at.timestamp() < _YOUNG_S
        self._known[pid] = _Known(process, ticks, cpu_s, now, is_young)
        return process

    def _read_all(self, pid: int, parent: int, ticks: int) -> Process | None:
        directory = self._proc / str(pid)
        try:
            uid = directory.stat().st_uid
        except OSError:
            return None
        group = _bytes_of(directory / "cgroup")
        container = _CONTAINER.search(group)
        return Process(
            pid=pid,
            inner_pid=_inner_pid(_bytes_of(directory / "status"), pid),
            parent=parent,
            uid=uid,
            user=self._user(uid),
            command=self._command(directory),
            started_at=datetime.fromtimestamp(self._booted_at + ticks * self._tick_s, UTC),
            is_own=uid == self._own_uid,
            variables=_variables(_bytes_of(directory / "environ")),
            directory=_link(directory / "cwd"),
            group=_group(group),
            container=container.group().decode() if container else "",
        )

    def _command(self, directory: Path) -> str:
        words = _bytes_of(directory / "cmdline", _MAX_BYTES).split(b"\0")
        texts = [word.decode(errors="replace") for word in words if word]
        if not texts:
            # This is a kernel thread, or a process that hides its command line.
            return _bytes_of(directory / "comm").decode(errors="replace").strip()
        return " ".join(masked_command(texts))[:_MAX_CHARACTERS]

    def _user(self, uid: int) -> str | None:
        if uid not in self._users:
            try:
                self._users[uid] = pwd.getpwuid(uid).pw_name
            except KeyError:
                self._users[uid] = str(uid)
        return self._users[uid]

    def _read_boot(self) -> float:
        for line in _bytes_of(self._proc / "stat").splitlines():
            if line.startswith(b"btime "):
                return float(line.split()[1])
        return 0.0


def _bytes_of(path: Path, most: int = -1) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError:
        return b""


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _inner_pid(status: bytes, pid: int) -> int:
    for line in status.splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return pid


def _catches(status: bytes, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal."""
    for line in status.splitlines():
        if line.startswith(b"SigCgt:"):
            with contextlib.suppress(ValueError, IndexError):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _variables(environment: bytes) -> dict[str, str]:
    variables: dict[str, str] = {}
    for entry in environment.split(b"\0"):
        name, separator, value = entry.partition(b"=")
        text = name.decode(errors="replace")
        if separator and text in _VARIABLES:
            variables[text] = value.decode(errors="replace")
    return variables


def _group(content: bytes) -> str:
    """Return a process's control group: that of version 2, or the deepest of version 1."""
    paths = [line.split(b":", 2)[-1].decode(errors="replace") for line in content.splitlines()]
    return max(paths, key=len, default="")
