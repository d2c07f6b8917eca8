"""What this machine has for tasks, who has what of it, and leases that other processes respect."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

import psutil

from tarmac.devices import GpuInfo, list_gpus
from tarmac.errors import RequestError
from tarmac.jobs.executors._base import Grant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tarmac.jobs._job import Resources
    from tarmac.jobs._plan import Task

__all__ = ["Machine", "default_leases", "read_machine"]

# Sums of parts, such as ten tenths of a GPU, may miss the whole by rounding.
_SLACK = 1e-9

_GIB = 2**30


def default_leases() -> Path:
    """Return the directory where all users' processes on this machine lease GPUs."""
    return Path(tempfile.gettempdir()) / "tarmac-leases"


def read_machine(*, fake_gpus: int = 0, leases: Path | None = None) -> Machine:
    """Look at this machine.

    Args:
        fake_gpus: GPUs to pretend, for trying job files; they take no part in leases.
        leases: Where GPUs are leased; by default `default_leases`.
    """
    gpus = list_gpus()
    if fake_gpus:
        gpus = tuple(GpuInfo(f"FAKE-{n}", "fake", 16 * _GIB) for n in range(fake_gpus))
    allowed = float(len(psutil.Process().cpu_affinity()))
    return Machine(
        cpus=allowed,
        memory=psutil.virtual_memory().total,
        gpus=gpus,
        leases=None if fake_gpus else leases or default_leases(),
    )


class Machine:
    """Counts what is free, and leases GPUs from all processes of the machine.

    Args:
        cpus: Cores to give away.
        memory: Bytes to give away.
        gpus: GPUs to give away.
        leases: The directory of their locks; None where nobody else could want them.

    Attributes:
        cpus: As given.
        memory: As given.
        gpus: As given.
    """

    def __init__(
        self, *, cpus: float, memory: int, gpus: Sequence[GpuInfo], leases: Path | None
    ) -> None:
        self.cpus = cpus
        self.memory = memory
        self.gpus = tuple(gpus)
        self._leases = leases
        self._free_cpus = cpus
        self._free_memory = memory
        self._free = {gpu.uuid: 1.0 for gpu in gpus}
        self._locks: dict[str, IO[str]] = {}

    def refuse_what_never_fits(self, tasks: Iterable[Task]) -> None:
        """Raise a RequestError for a task that needs more than the whole machine has."""
        for task in tasks:
            needs = task.resources
            problem = self._problem(needs)
            if problem is not None:
                raise RequestError(
                    f"task {task.name!r} needs {problem}",
                    hint="Ask for less, or try it with pretended GPUs: --fake-gpus N"
                    if needs.gpus
                    else "Ask for less.",
                )

    def candidates(self, needs: Resources) -> Sequence[GpuInfo]:
        """Return the GPUs that a task's could come from; none where it needs none."""
        if not needs.gpus:
            return ()
        return [gpu for gpu in self.gpus if gpu.memory_bytes >= (needs.gpu_memory or 0)]

    def has_room(self, needs: Resources) -> bool:
        """Whether CPUs and memory are free, whatever the GPUs are."""
        is_small = needs.cpus <= self._free_cpus + _SLACK
        return is_small and (needs.memory or 0) <= self._free_memory

    def take(self, needs: Resources) -> Grant | None:
        """Give resources away, or None while they are not free."""
        memory = needs.memory or 0
        if not self.has_room(needs):
            return None
        gpus = self._take_gpus(needs)
        if gpus is None:
            return None
        self._free_cpus -= needs.cpus
        self._free_memory -= memory
        return Grant(needs.cpus, memory, gpus, min(needs.gpus, 1.0))

    def give_back(self, grant: Grant) -> None:
        """Take back what a task had."""
        self._free_cpus += grant.cpus
        self._free_memory += grant.memory
        for uuid in grant.gpus:
            self._free[uuid] += grant.share
            if self._free[uuid] > 1 - _SLACK:
                self._release(uuid)

    def _problem(self, needs: Resources) -> str | None:
        if needs.cpus > self.cpus + _SLACK:
            return f"{needs.cpus:g} CPUs, this machine has {self.cpus:g}"
        if (needs.memory or 0) > self.memory:
            has = f"{self.memory / _GIB:.1f} GiB"
            return f"{(needs.memory or 0) / _GIB:.1f} GiB of memory, this machine has {has}"
        large = self.candidates(needs)
        if needs.gpus > len(large):
            of = f" of {needs.gpu_memory / _GIB:.1f} GiB" if needs.gpu_memory else ""
            return f"{needs.gpus:g} GPUs{of}, this machine has {len(large)}"
        return None

    def _take_gpus(self, needs: Resources) -> tuple[str, ...] | None:
        share, count = min(needs.gpus, 1.0), math.ceil(needs.gpus)
        # Parts go to the fullest GPU that has room, so that whole ones stay whole.
        uuids = (gpu.uuid for gpu in self.candidates(needs))
        fitting = sorted(uuids, key=lambda uuid: self._free[uuid])
        taken: list[str] = []
        for uuid in fitting:
            if len(taken) == count:
                break
            if self._free[uuid] + _SLACK >= share and self._lease(uuid):
                taken.append(uuid)
        if len(taken) < count:
            for uuid in taken:
                if self._free[uuid] > 1 - _SLACK:
                    self._release(uuid)
            return None
        for uuid in taken:
            self._free[uuid] -= share
        return tuple(taken)

    def _lease(self, uuid: str) -> bool:
        """Lock a GPU against other processes; the lock ends with this process."""
        if self._leases is None or uuid in self._locks:
            return True
        with contextlib.suppress(FileExistsError):
            self._leases.mkdir(parents=True)
            # As /tmp itself: anybody may make locks, nobody may take another's away.
            self._leases.chmod(0o1777)
        descriptor = os.open(self._leases / f"{uuid}.lock", os.O_RDWR | os.O_CREAT, 0o666)
        file = os.fdopen(descriptor, "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return False
        self._locks[uuid] = file
        return True

    def _release(self, uuid: str) -> None:
        lock = self._locks.pop(uuid, None)
        if lock is not None:
            lock.close()
