"""The processes on AMD's cards: compute processes by KFD's files, all processes by open files.

KFD lists the processes of all users, but only with their memory. The kernel's entries of a
process's open files (https://docs.kernel.org/gpu/drm-usage-stats.html) also show how busy it keeps
a card, for processes that this user may inspect.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tarmac.machine.amd_files import find_kfd_nodes, read_number, text_of
from tarmac.machine.live import LiveProcess
from tarmac.machine.pids import sees_all_processes

_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20}

# Engines for compute and graphics; engines for copies and video use no multiprocessors.
_ENGINES = {"drm-engine-compute": "compute", "drm-engine-gfx": "graphics"}


@dataclasses.dataclass
class _Use:
    """The resources of a card that a process uses.

    Attributes:
        engine_ns: Nanoseconds of each engine, since the process opened the card.
    """

    memory_bytes: int | None = None
    engine_ns: dict[str, int] = dataclasses.field(default_factory=dict)


class AmdProcessReader:
    """A reader of the processes, with their shares of the time between two readings.

    Args:
        root: Directory with ``proc`` and ``sys``.
        clock: Monotonic clock in seconds; for tests.
    """

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._sees_all = sees_all_processes(root)
        self._addresses = {node.gpu_id: node.address for node in find_kfd_nodes(root)}
        self._read_at: float | None = None
        self._used_ns: dict[tuple[str, int], int] = {}

    def read(self) -> dict[str, tuple[LiveProcess, ...]]:
        """Return the processes of each card, by its address."""
        now = self._clock()
        passed_s = None if self._read_at is None else now - self._read_at
        seen, last = self._look_at_files(), self._used_ns
        self._read_at = now
        self._used_ns = {key: sum(use.engine_ns.values()) for key, use in seen.items()}
        processes: dict[str, dict[int, LiveProcess]] = {}
        for (address, pid), use in seen.items():
            share = None
            if passed_s and use.engine_ns and (address, pid) in last:
                used_s = (self._used_ns[address, pid] - last[address, pid]) / 1e9
                share = min(1.0, max(0.0, used_s / passed_s))
            processes.setdefault(address, {})[pid] = LiveProcess(
                pid=pid,
                driver_pid=pid,
                kind=_kind(use),
                memory_bytes=use.memory_bytes,
                sm_ratio=share,
            )
        for address, pid, memory_bytes in self._look_at_kfd():
            rows = processes.setdefault(address, {})
            if self._sees_all and pid in rows:
                continue
            # PIDs of the host cannot be matched with rows that have PIDs of this namespace.
            if self._sees_all or not any(row.pid is not None for row in rows.values()):
                rows[pid] = LiveProcess(
                    pid=pid if self._sees_all else None, driver_pid=pid, memory_bytes=memory_bytes
                )
        return {
            address: tuple(rows[pid] for pid in sorted(rows)) for address, rows in processes.items()
        }

    def _look_at_kfd(self) -> Iterator[tuple[str, int, int]]:
        """Yield the card's address, the PID and the bytes of each compute process."""
        for path in sorted((self._root / "sys/class/kfd/kfd/proc").glob("[0-9]*/vram_*")):
            held, gpu_id = read_number(path), path.name.removeprefix("vram_")
            address = self._addresses.get(int(gpu_id)) if gpu_id.isdecimal() else None
            if held and address is not None:
                yield address, int(path.parent.name), held

    def _look_at_files(self) -> dict[tuple[str, int], _Use]:
        """Return the resources that each process uses, by the card's address and PID."""
        uses: dict[tuple[str, int], _Use] = {}
        clients = set()
        for process in (self._root / "proc").glob("[0-9]*"):
            for number in _card_files(process):
                facts = _facts(process / "fdinfo" / number)
                address, pid = facts.get("drm-pdev"), int(process.name)
                client = (address, pid, facts.get("drm-client-id"))
                # Several files may belong to the same client.
                if facts.get("drm-driver") != "amdgpu" or address is None or client in clients:
                    continue
                clients.add(client)
                _add(uses.setdefault((address, pid), _Use()), facts)
        return uses


def _card_files(process: Path) -> Iterator[str]:
    """Yield the file descriptors of a process that are cards."""
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        # The process has ended, or belongs to another user.
        return
    for descriptor in descriptors:
        try:
            is_card = str(descriptor.readlink()).startswith("/dev/dri/")
        except OSError:
            continue
        if is_card:
            yield descriptor.name


def _facts(path: Path) -> dict[str, str]:
    lines = (line.partition(":") for line in (text_of(path) or "").splitlines())
    return {name: value.strip() for name, _, value in lines}


def _add(use: _Use, facts: dict[str, str]) -> None:
    # Newer kernels call the current memory "resident".
    for key in ("drm-resident-vram", "drm-memory-vram"):
        size = re.fullmatch(r"(\d+) ?(KiB|MiB|)", facts.get(key, ""))
        if size:
            use.memory_bytes = (use.memory_bytes or 0) + int(size[1]) * _UNITS[size[2]]
            break
    for key in _ENGINES:
        spent = re.fullmatch(r"(\d+) ns", facts.get(key, ""))
        if spent:
            use.engine_ns[key] = use.engine_ns.get(key, 0) + int(spent[1])


def _kind(use: _Use) -> str:
    kinds = {_ENGINES[key] for key, spent in use.engine_ns.items() if spent}
    return "both" if len(kinds) > 1 else next(iter(kinds), "compute")
