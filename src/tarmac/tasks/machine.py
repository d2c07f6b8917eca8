"""The resources of this machine, and their allocation to tasks."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tarmac.errors import RequestError
from tarmac.machine import (
    GpuInfo,
    Obstacle,
    fitting_names,
    list_gpus,
    read_gpus_in_time,
    read_limits,
    why_withheld,
)
from tarmac.tasks.leases import Leases, TaskLeases, default_leases, inherited_leases
from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.tasks.model import Resources
    from tarmac.tasks.plan import Task

# Rounding errors: ten tenths of a GPU may miss the whole.
_SLACK = 1e-9

_GIB = 2**30


def read_machine(*, fake_gpus: int = 0, leases: Path | None = None) -> Machine:
    """Read the resources of this machine that this process may use.

    Cores and memory are those of its affinity and its control groups. GPUs are those that
    ``CUDA_VISIBLE_DEVICES`` leaves.

    Args:
        fake_gpus: Number of simulated GPUs, to try job files; they are not leased. Default 0: real
            GPUs.
        leases: Directory in which GPUs are leased; by default `default_leases`.
    """
    limits, total = read_limits(), psutil.virtual_memory().total
    gpus: Sequence[GpuInfo] = ()
    problem: RequestError | None = None
    withheld: Obstacle | None = None
    if fake_gpus:
        gpus = [GpuInfo(f"FAKE-{n}", "fake", 16 * _GIB) for n in range(fake_gpus)]
    else:
        try:
            present = read_gpus_in_time()
            gpus = list_gpus(present, os.environ)
            withheld = why_withheld(present, os.environ.get("CUDA_VISIBLE_DEVICES"))
        except RequestError as error:
            problem = error
    return Machine(
        # With a quota below one core, a task is slow but can run.
        cpus=max(1.0, limits.cpus),
        memory=min(total, limits.memory_bytes or total),
        gpus=gpus,
        leases=None if fake_gpus else leases or default_leases(),
        is_pretending=fake_gpus > 0,
        inherited=inherited_leases(os.environ),
        gpu_problem=problem,
        withheld=withheld,
    )


@dataclasses.dataclass(frozen=True)
class Grant:
    """The resources that a task holds while it runs.

    Attributes:
        cpus: Number of CPU cores, which may be a fraction.
        memory: Memory limit in bytes; 0 for no limit.
        gpus: UUIDs of the granted GPUs; ``FAKE-0``, ``FAKE-1`` for simulated GPUs.
        share: Fraction of each granted GPU, up to 1; 0 without GPUs.
    """

    cpus: float
    memory: int
    gpus: tuple[str, ...]
    share: float


@dataclasses.dataclass(frozen=True)
class Shortage:
    """The resources that a task lacks to begin.

    Attributes:
        cpus: Number of missing CPU cores; 0 where enough are free.
        memory: Bytes of missing memory; 0 where enough is free.
        gpus: Number of missing GPUs, which may be a fraction; 0 where enough are free.
    """

    cpus: float = 0.0
    memory: int = 0
    gpus: float = 0.0

    def __bool__(self) -> bool:
        return self.cpus > _SLACK or self.memory > 0 or self.gpus > _SLACK

    def is_eased_by(self, grant: Grant) -> bool:
        """Whether a grant, given back, would reduce the shortage."""
        has_cpus = self.cpus > _SLACK and grant.cpus > _SLACK
        has_memory = self.memory > 0 and grant.memory > 0
        return has_cpus or has_memory or (self.gpus > _SLACK and bool(grant.gpus))


class Machine:
    """The free resources of a machine, with GPUs leased from all processes of the machine.

    Args:
        cpus: Number of cores to allocate.
        memory: Bytes of memory to allocate.
        gpus: GPUs of the machine to allocate.
        leases: Directory of the GPUs' locks; None where no other process could want the GPUs.
        is_pretending: Whether the GPUs are simulated. Default False.
        inherited: Leases of the task that this process belongs to; None outside a task.
        gpu_problem: Error that prevented reading the GPUs; raised when a task needs GPUs.
        withheld: Reason why the driver has more GPUs than `gpus`. None: it has no more.

    Attributes:
        cpus: Number of cores to allocate, used ones included.
        memory: Bytes of memory to allocate, used ones included.
        gpus: GPUs to allocate, used ones included.
        is_pretending: Whether the GPUs are simulated.
    """

    def __init__(
        self,
        *,
        cpus: float,
        memory: int,
        gpus: Sequence[GpuInfo],
        leases: Path | None,
        is_pretending: bool = False,
        inherited: TaskLeases | None = None,
        gpu_problem: RequestError | None = None,
        withheld: Obstacle | None = None,
    ) -> None:
        self.cpus = cpus
        self.memory = memory
        self.gpus = tuple(gpus)
        self.is_pretending = is_pretending
        self._leases = None if leases is None else Leases(leases, inherited)
        self._gpu_problem = gpu_problem
        self._withheld = withheld
        self._free_cpus = cpus
        self._free_memory = memory
        self._free = {gpu.uuid: 1.0 for gpu in gpus}
        self._exclusive = {gpu.uuid for gpu in gpus if gpu.is_exclusive}

    def refuse_what_never_fits(self, tasks: Iterable[Task]) -> None:
        """Raise a RequestError for a task that needs more than the whole machine has.

        The error is also raised for a task with GPUs where GPUs cannot be read or leased.
        """
        for task in tasks:
            self._refuse_what_never_fits(task)

    def problems_of(self, tasks: Iterable[Task]) -> list[str]:
        """Return why tasks can never begin here, once for each distinct set of resources."""
        by_needs: dict[str, Task] = {}
        for task in tasks:
            by_needs.setdefault(repr(task.resources), task)
        problems: dict[str, None] = {}
        for task in by_needs.values():
            try:
                self._refuse_what_never_fits(task)
            except RequestError as error:
                problems[str(error)] = None
        return [*problems]

    def _refuse_what_never_fits(self, task: Task) -> None:
        needs = task.resources
        if needs.gpus and self._gpu_problem is not None:
            raise self._gpu_problem
        if needs.nodes > 1:
            raise RequestError(
                f"task {task.name!r} needs {needs.nodes} nodes, and this is one machine",
                hint="Run it on a cluster: tarmac run FILE --on slurm",
            )
        problem = self._problem(needs)
        if problem is not None:
            raise RequestError(f"task {task.name!r} needs {problem}", hint=self._hint(needs))
        if self._leases is not None:
            for gpu in self.candidates(needs):
                self._leases.open(gpu.uuid)

    def candidates(self, needs: Resources) -> Sequence[GpuInfo]:
        """Return the GPUs that a task could be given; none for a task without GPUs."""
        if not needs.gpus:
            return ()
        # A process sees at most one instance, even if more are visible (MIG user guide, "CUDA
        # device enumeration").
        large = [gpu for gpu in self.gpus if gpu.memory_bytes >= (needs.gpu_memory or 0)]
        able = [gpu for gpu in large if needs.gpus <= 1 or not gpu.is_instance]
        names = fitting_names((gpu.name for gpu in able), needs.gpu_type)
        return [gpu for gpu in able if not needs.gpu_type or gpu.name in names]

    def has_room(self, needs: Resources) -> bool:
        """Whether CPUs and memory are free, regardless of GPUs."""
        is_small = needs.cpus <= self._free_cpus + _SLACK
        return is_small and (needs.memory or 0) <= self._free_memory

    def shortage(self, needs: Resources, coming: Iterable[Grant] = ()) -> Shortage:
        """Return what a task lacks to begin, apart from GPUs that other processes hold.

        Args:
            needs: Resources that the task requests.
            coming: Grants of other tasks that will be given back soon.
        """
        cpus, memory, gpus = self._free_cpus, self._free_memory, dict(self._free)
        for grant in coming:
            cpus += grant.cpus
            memory += grant.memory
            for uuid in grant.gpus:
                gpus[uuid] += grant.share
        candidates = [gpu.uuid for gpu in self.candidates(needs)]
        num_free = sum(gpus[uuid] + _SLACK >= self._share(needs, uuid) for uuid in candidates)
        lacking = needs.gpus - num_free if math.ceil(needs.gpus) > num_free else 0.0
        return Shortage(
            max(0.0, needs.cpus - cpus), max(0, (needs.memory or 0) - memory), max(0.0, lacking)
        )

    def why_full(self, needs: Resources) -> str:
        """Return why a task cannot begin now, with numbers.

        Example: ``2 of 2 GPUs are in use, it needs 1``.
        """
        short = self.shortage(needs)
        reasons = []
        if short.cpus > _SLACK:
            cpus = counted(self.cpus, "CPU is", "CPUs are")
            used = f"{self.cpus - self._free_cpus:g} of {cpus} in use"
            reasons.append(f"{used}, it needs {needs.cpus:g}")
        if short.memory:
            used = f"{(self.memory - self._free_memory) / _GIB:.1f} of {self.memory / _GIB:.1f} GiB"
            reasons.append(
                f"{used} of memory are in use, it needs {(needs.memory or 0) / _GIB:.1f}"
            )
        candidates = self.candidates(needs)
        if short.gpus > _SLACK:
            num_used = sum(
                self._free[gpu.uuid] + _SLACK < self._share(needs, gpu.uuid) for gpu in candidates
            )
            used = f"{num_used} of {counted(len(candidates), 'GPU is', 'GPUs are')} in use"
            reasons.append(f"{used}, it needs {needs.gpus:g}")
        elif candidates and not reasons:
            reasons.append(
                f"its {counted(needs.gpus, 'GPU is', 'GPUs are')} leased by other programs of this "
                "machine"
            )
        return "; ".join(reasons)

    def take(self, needs: Resources) -> Grant | None:
        """Grant resources to a task; return None while they are not free."""
        memory = needs.memory or 0
        if not self.has_room(needs):
            return None
        gpus = self._take_gpus(needs)
        if gpus is None:
            return None
        share = self._share(needs, gpus[0]) if gpus else 0.0
        self._free_cpus -= needs.cpus
        self._free_memory -= memory
        return Grant(needs.cpus, memory, gpus, share)

    def give_back(self, grant: Grant) -> None:
        """Release the resources of a grant."""
        self._free_cpus += grant.cpus
        self._free_memory += grant.memory
        for uuid in grant.gpus:
            self._free[uuid] += grant.share
            if self._free[uuid] > 1 - _SLACK:
                self._release(uuid)

    def _problem(self, needs: Resources) -> str | None:
        if needs.cpus > self.cpus + _SLACK:
            return f"{counted(needs.cpus, 'CPU')}, this machine has {self.cpus:g}"
        if (needs.memory or 0) > self.memory:
            has = f"{self.memory / _GIB:.1f} GiB"
            return f"{(needs.memory or 0) / _GIB:.1f} GiB of memory, this machine has {has}"
        large = self.candidates(needs)
        if needs.gpus > len(large):
            of = f" of {needs.gpu_memory / _GIB:.1f} GiB" if needs.gpu_memory else ""
            why = f": {self._withheld.text}" if self._withheld is not None else ""
            if needs.gpu_type:
                of = f" of type {needs.gpu_type!r}{of}"
                names = ", ".join(sorted({gpu.name for gpu in self.gpus}))
                why = f" of {names}{why}" if names else why
            return f"{counted(needs.gpus, 'GPU')}{of}, this machine has {len(large)}{why}"
        return None

    def _hint(self, needs: Resources) -> str:
        if not needs.gpus:
            return "Ask for less."
        pretend = "Ask for less, or try it with pretended GPUs: --fake-gpus N"
        return pretend if self._withheld is None else f"{self._withheld.hint}. {pretend}"

    def _take_gpus(self, needs: Resources) -> tuple[str, ...] | None:
        count = math.ceil(needs.gpus)
        # Fractions go to the fullest GPU with room, so that whole GPUs stay free.
        uuids = (gpu.uuid for gpu in self.candidates(needs))
        fitting = sorted(uuids, key=lambda uuid: (self._share(needs, uuid), self._free[uuid]))
        taken: list[str] = []
        for uuid in fitting:
            if len(taken) == count:
                break
            if self._free[uuid] + _SLACK >= self._share(needs, uuid) and self._lease(uuid):
                taken.append(uuid)
        if len(taken) < count:
            for uuid in taken:
                if self._free[uuid] > 1 - _SLACK:
                    self._release(uuid)
            return None
        for uuid in taken:
            self._free[uuid] -= self._share(needs, uuid)
        return tuple(taken)

    def _share(self, needs: Resources, uuid: str) -> float:
        """Return the fraction of a GPU that a task takes."""
        # A GPU in exclusive mode accepts one process, so a fraction of it takes all of it.
        return 1.0 if uuid in self._exclusive else min(needs.gpus, 1.0)

    def _lease(self, uuid: str) -> bool:
        return self._leases is None or self._leases.take(uuid)

    def _release(self, uuid: str) -> None:
        if self._leases is not None:
            self._leases.give_back(uuid)
