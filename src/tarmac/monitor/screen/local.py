"""Facts of this machine on the processes of a row: their tree and their environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import psutil

from tarmac.errors import RequestError
from tarmac.masking import masked_command, masked_environment
from tarmac.monitor.drawing import Line, Look, Row, Span, duration, gib

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import Snapshot, Work

_GONE: Line = (Span("it has ended", "dim"),)


def is_here(host: str) -> bool:
    """Return whether a host is this machine."""
    return host == os.uname().nodename


def work_of(key: tuple[str, ...], snapshot: Snapshot) -> Work | None:
    """Return the work of a row; None if the row shows no work or the work is gone."""
    if key[:1] != ("work",):
        return None
    works = (work for host in snapshot.hosts if host.host.name == key[1] for work in host.work)
    return next((work for work in works if work.id == key[2]), None)


def pids_of(key: tuple[str, ...], snapshot: Snapshot, elsewhere: str) -> Sequence[int]:
    """Return the pids of a row on this machine.

    Args:
        key: Key of the row; empty if none is chosen.
        snapshot: Snapshot on the screen, to look the row up in.
        elsewhere: Reason to refuse, the same as `ScreenOptions.elsewhere`. Empty on this machine.

    Raises:
        RequestError: No process is known here; the message says why.
    """
    if key and elsewhere:
        raise RequestError(f"{elsewhere}: its processes are not looked at from here")
    if key and not is_here(key[1]):
        raise RequestError(f"it runs on {key[1]}, not on this machine")
    work = work_of(key, snapshot)
    pids = () if work is None else work.pids
    if key[:1] == ("process",) and key[2].isdecimal():
        pids = (int(key[2]),)
    if not pids:
        raise RequestError("no process of it is known here")
    return pids


def tree_rows(pids: Sequence[int], look: Look) -> list[Row]:
    """Return processes with all their descendants, each below its parent."""
    heading = (Span(f"{'PID':>8} {'USER':<10} {'CPU':>6} {'GiB':>6}  COMMAND", "title"),)
    rows = [Row((), heading)]
    seen: set[int] = set()
    for pid in pids:
        try:
            root = psutil.Process(pid)
            processes = [root, *root.children(recursive=True)]
        except psutil.Error:
            continue
        below: dict[int, list[psutil.Process]] = {}
        for process in processes[1:]:
            try:
                below.setdefault(process.ppid(), []).append(process)
            except psutil.Error:
                continue
        rows += [Row((), line) for line in _branch(root, below, seen, look)]
    return rows if len(rows) > 1 else [Row((), _GONE)]


def environment_rows(pid: int, look: Look) -> list[Row]:
    """Return the environment with which a process started, with secrets redacted."""
    try:
        variables = psutil.Process(pid).environ()
    except psutil.AccessDenied:
        return [Row((), (Span(f"process {pid} is not yours to read", "dim"),))]
    except (psutil.Error, OSError):
        return [Row((), _GONE)]
    return [
        Row((), (Span(look.clean(name), "strong"), Span(f"={look.clean(value)}")))
        for name, value in sorted(masked_environment(variables).items())
    ]


def _branch(
    process: psutil.Process,
    below: dict[int, list[psutil.Process]],
    seen: set[int],
    look: Look,
    indents: tuple[str, str] = ("", ""),
) -> Iterator[Line]:
    if process.pid in seen:
        return
    seen.add(process.pid)
    try:
        with process.oneshot():
            user = process.username()
            times = process.cpu_times()
            memory = process.memory_info().rss
            command = " ".join(masked_command(process.cmdline())) or process.name()
    except (psutil.Error, KeyError):
        return
    own, deeper = indents
    cpu_s = times.user + times.system
    facts = f"{process.pid:>8} {look.clean(user):<10.10} {duration(cpu_s):>6} {gib(memory):>6}  "
    yield (Span(facts), Span(own, "dim"), Span(look.clean(command)))
    children = below.get(process.pid, [])
    corner, beam, tee = ("`- ", "|  ", "|- ") if look.ascii_only else ("└─ ", "│  ", "├─ ")
    for number, child in enumerate(children):
        is_last = number == len(children) - 1
        lines = (deeper + (corner if is_last else tee), deeper + ("   " if is_last else beam))
        yield from _branch(child, below, seen, look, lines)
