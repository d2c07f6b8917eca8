"""The machine that a job requests from SkyPilot, by its pool or by its tasks' resources."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.formats.format import Unwritable
from tarmac.formats.original import original_of
from tarmac.formats.skypilot.azure_sizes import find_size, spelled, successor_of
from tarmac.jobs import Job, Task
from tarmac.machine import is_of_type
from tarmac.wording import counted

# GPUs that SkyPilot may choose from if a job has no GPU type, by SkyPilot's names, with the memory
# in 10^9 bytes from the maker's datasheet.
_CHOICE = {
    "T4": 16,
    "L4": 24,
    "A10G": 24,
    "A10": 24,
    "L40S": 48,
    "A100": 40,
    "A100-80GB": 80,
    "H100": 80,
    "H200": 141,
}
# Numbers of GPUs in one machine that clouds offer.
_NUMBERS = (1, 2, 4, 8)

# SkyPilot stops an idle machine after this time. Its disk stays, with all outputs.
_IDLE_MINUTES = 10


def resources_of(job: Job, tasks: Sequence[Task]) -> tuple[dict[str, Any], list[str]]:
    """Return the ``resources`` of a job's SkyPilot task, and notes on them.

    Args:
        job: Job to write. If read from Batch Shipyard's files, its pool gives the size and kind
            of machine.
        tasks: Tasks of the job, which share the machine. The machine fits the largest of them.

    Raises:
        RequestError: No machine has enough GPUs, or the pool's machine has too few.
    """
    gpus = max((math.ceil(task.resources.gpus) for task in tasks), default=0)
    cpus = max((math.ceil(task.resources.cpus) for task in tasks), default=1)
    memory = max((task.resources.memory or 0 for task in tasks), default=0)
    needs: dict[str, Any] = {"cpus": f"{max(1, cpus)}+"}
    gib = math.ceil(memory / 2**30)
    original = original_of(job, "shipyard") or {}
    pool = original.get("pool_specification")
    if isinstance(pool, dict) and isinstance(pool.get("vm_size"), str):
        # With both, even if minimal, SkyPilot reads the task without Azure's list of sizes.
        needs["memory"] = f"{max(1, gib)}+"
        return _of_pool(job, pool, gpus, needs)
    if gib:
        needs["memory"] = f"{gib}+"
    if gpus:
        gpu_memory = max(task.resources.gpu_memory or 0 for task in tasks)
        needs["accelerators"] = _any_of(job, tasks, gpus, gpu_memory)
    return {**needs, "autostop": {"idle_minutes": _IDLE_MINUTES}}, []


def place_in_job(job: Job, task: Task, *value: str) -> tuple[str | int, ...]:
    """Return the path that a task's value has, or would have, in the job file."""
    specs = [spec.name for spec in job.tasks]
    if task.is_last:
        return ("after_all", *value)
    return ("tasks", specs.index(task.spec), *value) if task.spec in specs else value


def _any_of(job: Job, tasks: Sequence[Task], gpus: int, gpu_memory: int) -> dict[str, int]:
    number = next((n for n in _NUMBERS if n >= gpus), None)
    fitting = [name for name, size in _CHOICE.items() if size * 10**9 >= gpu_memory]
    gpu_type = _gpu_type(job, tasks)
    if gpu_type and number is not None:
        # SkyPilot knows more types than this table, and refuses an unknown type itself.
        known = [name for name in _CHOICE if is_of_type(name, gpu_type)]
        fitting = [name for name in fitting if name in known] if known else [gpu_type]
    if number is None or not fitting:
        kind = f"GPUs {gpu_type}" if gpu_type else "GPUs"
        wanted = counted(gpus, "GPU") if number is None else f"{kind} of {gpu_memory / 2**30:g} GiB"
        name = "gpus" if number is None else "gpu_memory"
        greedy = max(tasks, key=lambda task: getattr(task.resources, name) or 0)
        raise Unwritable(
            f"{job.name}: a task asks for {wanted}, and no machine of SkyPilot has them",
            hint="Spread it over machines: resources: {nodes: 2, gpus: 8}"
            if number is None
            else "The largest that Tarmac offers it is an H200, of 141 GB",
            path=place_in_job(job, greedy, "resources", name),
        )
    return dict.fromkeys(fitting, number)


def _gpu_type(job: Job, tasks: Sequence[Task]) -> str:
    kinds = {task.resources.gpu_type: task for task in tasks if task.resources.gpu_type}
    if len(kinds) > 1:
        raise Unwritable(
            f"{job.name}: tasks ask for GPUs {' and '.join(sorted(kinds))}, and share one machine",
            hint="Convert them as jobs of their own.",
            path=place_in_job(job, [*kinds.values()][-1], "resources", "gpus"),
        )
    return next(iter(kinds), "")


def _of_pool(
    job: Job, pool: Mapping[str, Any], gpus: int, needs: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    vm_size = str(pool["vm_size"])
    notes = []
    size, old = find_size(vm_size), successor_of(vm_size)
    if old is not None:
        size = old.size
        notes.append(
            f"{job.name}: {old.why.format(f'{spelled(vm_size)} ({old.had})')}; the task asks for "
            f"{size.name}, which has {size.gpus:g} {size.gpu}"
        )
    resources: dict[str, Any] = {"infra": "azure"}
    if size is None:
        resources["instance_type"] = spelled(vm_size)
        if gpus:
            notes.append(
                f"{job.name}: which GPUs {vm_size} has is not known here; the task asks for the "
                "machine alone, and looks at its GPUs when it is open"
            )
    else:
        if gpus > math.ceil(size.gpus):
            raise Unwritable(
                f"{job.name}: a task asks for {counted(gpus, 'GPU')}, and {size.name} has "
                f"{size.gpus:g}",
                hint="Give the pool another vm_size, or the task fewer gpus",
            )
        resources["instance_type"] = size.name
        if size.gpu:
            resources["accelerators"] = {size.gpu: size.gpus}
    resources |= needs
    dedicated, spot = _counts(pool)
    if dedicated + spot > 1:
        notes.append(
            f"{job.name}: its pool has {dedicated + spot} machines, but only one is opened, and "
            "the tasks share it"
        )
    if spot and not dedicated:
        resources["use_spot"] = True
        notes.append(
            f"{job.name}: low_priority is a spot machine, which Azure cannot stop when it is "
            "idle: end it yourself"
        )
    else:
        resources["autostop"] = {"idle_minutes": _IDLE_MINUTES}
    return resources, notes


def _counts(pool: Mapping[str, Any]) -> tuple[int, int]:
    """Return the numbers of dedicated and of low-priority machines in a pool."""
    count = pool.get("vm_count")
    counts = count if isinstance(count, dict) else {"dedicated": count}
    numbers = [counts.get(kind) for kind in ("dedicated", "low_priority")]
    # Before Batch Shipyard 2.7, a count was text or missing.
    first, second = (n if isinstance(n, int) and n > 0 else 0 for n in numbers)
    return first, second
