"""The assignment of GPU processes, and of GPUs, to work; pure.

The most reliable evidence wins:

- ``processes``: the run names the process or one of its ancestors.
- ``cgroup``: the process shares a control group or a container with such a process.
- ``given``: the GPU was assigned to the work.
- ``slurm``: the process and the work have the same Slurm job.
- ``report``: the run records its GPUs. There is no other evidence where the driver names processes
  of another PID namespace.
"""

from __future__ import annotations

import dataclasses
import os.path
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tarmac.monitor.candidates import Candidate, is_started_for

if TYPE_CHECKING:
    from tarmac.machine import LiveGpu
    from tarmac.monitor.processes import Process

# From the most to the least reliable evidence.
_SURENESS = ("processes", "cgroup", "given", "slurm", "report")

# If several works have the same process, the most specific kind wins.
_PARTICULAR = ("training", "search", "task", "job")

# Control groups of a single work: those of Tarmac, of containers and of Slurm steps.
_PARTICULAR_GROUP = re.compile(
    r".*/(?:tarmac-[^/]+|[^/]*[0-9a-f]{64}[^/]*|job_\d+(?:/step_[^/]+)?)"
)

# Tarmac's name for the container or the control group of a task's attempt.
_ATTEMPT_NAME = re.compile(r"tarmac-(?P<mark>[0-9a-f]+)-(?P<index>\d+)-(?P<number>\d+)(?:-\d+)?$")


@dataclasses.dataclass(frozen=True)
class Join:
    """The assignment of processes and GPUs to work.

    Attributes:
        work_of: Work of each process on a GPU, by the GPU's UUID and the driver's process number.
            Processes of other users' work are absent.
        pids_of: Known pids of each work: roots, and processes on GPUs.
        gpus_of: UUIDs of the GPUs of each work, in the order of the GPUs.
        given_of: UUIDs of the GPUs assigned to each work, with or without a process on them.
        joined_by: Most reliable evidence for each work.
        parent_of: Parent of each work, from its record or from its processes.
    """

    work_of: Mapping[tuple[str, int], str]
    pids_of: Mapping[str, tuple[int, ...]]
    gpus_of: Mapping[str, tuple[str, ...]]
    given_of: Mapping[str, tuple[str, ...]]
    joined_by: Mapping[str, str]
    parent_of: Mapping[str, str]


def join(
    gpus: Sequence[LiveGpu],
    processes: Mapping[int, Process],
    candidates: Sequence[Candidate],
    names: Mapping[str, str] | None = None,
) -> Join:
    """Assign processes on GPUs, and the GPUs themselves, to work.

    Args:
        gpus: GPUs with the processes on each.
        processes: All known processes and their ancestors, by pid.
        candidates: Runs and parts that the processes may belong to.
        names: Names of containers by ID. Default: none.
    """
    by_id = {candidate.id: candidate for candidate in candidates}
    order = {gpu.uuid: number for number, gpu in enumerate(gpus)}
    work_of: dict[tuple[str, int], str] = {}
    signs: dict[str, set[str]] = {}
    used: dict[str, set[str]] = {}
    pids: dict[str, set[int]] = {candidate.id: set(candidate.roots) for candidate in candidates}
    for gpu in gpus:
        for row in gpu.processes:
            process = processes.get(row.pid) if row.pid is not None else None
            if process is None:
                continue
            match = _work_of(process, processes, candidates, names or {})
            if match is None:
                continue
            work, sign = match
            work_of[gpu.uuid, row.driver_pid] = work
            signs.setdefault(work, set()).add(sign)
            used.setdefault(work, set()).add(gpu.uuid)
            pids[work].add(process.pid)
    assignments = {candidate.id: _given(candidate, processes, gpus) for candidate in candidates}
    for candidate in candidates:
        if assignments[candidate.id]:
            signs.setdefault(candidate.id, set()).add("given")
            used.setdefault(candidate.id, set()).update(assignments[candidate.id])
        reported = [uuid for uuid in candidate.glance.uuids if uuid in order]
        is_here = candidate.glance.status == "running" and not candidate.glance.host
        if candidate.id not in used and reported and is_here:
            signs.setdefault(candidate.id, set()).add("report")
            used.setdefault(candidate.id, set()).update(reported)
    work_of |= _reported_processes(gpus, processes, candidates, used)
    parent_of = _parents(candidates, processes)
    for child in candidates:
        parent = parent_of.get(child.id)
        while parent is not None and parent in by_id:
            used.setdefault(parent, set()).update(used.get(child.id, ()))
            signs.setdefault(parent, set()).update(signs.get(child.id, ()))
            parent = parent_of.get(parent)
    return Join(
        work_of=work_of,
        pids_of={work: tuple(sorted(members)) for work, members in pids.items()},
        gpus_of={w: tuple(sorted(members, key=order.__getitem__)) for w, members in used.items()},
        given_of=assignments,
        joined_by={
            w: next(s for s in _SURENESS if s in kinds) for w, kinds in signs.items() if kinds
        },
        parent_of=parent_of,
    )


def slurm_job_of(process: Process) -> str | None:
    """Return the Slurm job of a process, as Slurm writes it; None without a job."""
    array, task = (process.variables.get(f"SLURM_ARRAY_{n}") for n in ("JOB_ID", "TASK_ID"))
    return f"{array}_{task}" if array and task else process.variables.get("SLURM_JOB_ID")


def _work_of(
    process: Process,
    processes: Mapping[int, Process],
    candidates: Sequence[Candidate],
    names: Mapping[str, str],
) -> tuple[str, str] | None:
    """Return a process's work and the kind of evidence for it; None without evidence."""
    line = [*_line(process, processes)]
    for ancestor in line:
        if (
            candidate := _most_particular(c for c in candidates if ancestor.pid in c.roots)
        ) is not None:
            return candidate.id, "processes"
    for ancestor in line:
        fitting = (c for c in candidates if is_started_for(ancestor, c, processes))
        if (candidate := _most_particular(fitting)) is not None:
            return candidate.id, "processes"
    grouped = (c for c in candidates if _shares_group(process, c, processes, names))
    if (candidate := _most_particular(grouped)) is not None:
        return candidate.id, "cgroup"
    jobs = {slurm_job_of(process), process.variables.get("SLURM_JOB_ID")} - {None}
    same = (c for c in candidates if c.glance.slurm_job and c.glance.slurm_job in jobs)
    if (candidate := _most_particular(same)) is not None:
        return candidate.id, "slurm"
    return None


def _line(process: Process, processes: Mapping[int, Process]) -> Iterator[Process]:
    """Yield a process and its ancestors, upwards."""
    seen: set[int] = set()
    at: Process | None = process
    while at is not None and at.pid not in seen:
        seen.add(at.pid)
        yield at
        at = processes.get(at.parent)


def _most_particular(candidates: Iterator[Candidate]) -> Candidate | None:
    return min(candidates, key=lambda c: _PARTICULAR.index(c.glance.kind), default=None)


def _shares_group(
    process: Process,
    candidate: Candidate,
    processes: Mapping[int, Process],
    names: Mapping[str, str],
) -> bool:
    """Return whether a process is in a control group or a container of the candidate alone."""
    name = os.path.basename(names.get(process.container, ""))  # noqa: PTH119 - a name, not a path
    if name and name == candidate.glance.container:
        return True
    if candidate.glance.kind == "task":
        for text in (name, process.group.rpartition("/")[2].removesuffix(".scope")):
            match = _ATTEMPT_NAME.search(text)
            if match is not None and match["mark"] in candidate.marks:
                variables = candidate.glance.variables
                attempt = variables.get("TARMAC_TASK_INDEX"), variables.get("TARMAC_ATTEMPT")
                return (match["index"], match["number"]) == attempt
    group = _particular_group(process)
    return group is not None and any(
        _particular_group(processes[root]) == group for root in candidate.roots if root in processes
    )


def _particular_group(process: Process) -> str | None:
    match = _PARTICULAR_GROUP.match(process.group)
    return None if match is None else match.group()


def _given(
    candidate: Candidate, processes: Mapping[int, Process], gpus: Sequence[LiveGpu]
) -> tuple[str, ...]:
    """Return the GPUs assigned to a task, from its record or from its processes' environment.

    The record takes precedence, because the process that starts a container has the environment in
    which the job was started.
    """
    if candidate.glance.kind != "task" or candidate.glance.host:
        return ()
    if candidate.glance.gpus is not None:
        return tuple(gpu.uuid for gpu in gpus if _is_named(gpu, candidate.glance.gpus))
    names: list[str] = []
    for pid in sorted(candidate.roots):
        value = processes[pid].variables.get("CUDA_VISIBLE_DEVICES", "") if pid in processes else ""
        names += [] if names else [name.strip() for name in value.split(",") if name.strip()]
    return tuple(gpu.uuid for gpu in gpus if _is_named(gpu, names))


def _is_named(gpu: LiveGpu, names: Sequence[str]) -> bool:
    if gpu.uuid in names:
        return True
    is_whole = gpu.parent_uuid is None
    return is_whole and str(gpu.index) in names


def _reported_processes(
    gpus: Sequence[LiveGpu],
    processes: Mapping[int, Process],
    candidates: Sequence[Candidate],
    used: Mapping[str, Collection[str]],
) -> dict[tuple[str, int], str]:
    """Return the works of processes without a known pid, on GPUs that only one work uses."""
    works: dict[tuple[str, int], str] = {}
    for gpu in gpus:
        there = [c for c in candidates if gpu.uuid in used.get(c.id, ())]
        trainings = [c for c in there if c.glance.kind == "training"] or there
        unknown = [row for row in gpu.processes if row.pid is None or row.pid not in processes]
        if len(trainings) == 1 and len(unknown) == 1:
            works[gpu.uuid, unknown[0].driver_pid] = trainings[0].id
    return works


def _parents(candidates: Sequence[Candidate], processes: Mapping[int, Process]) -> dict[str, str]:
    """Return the parent of each candidate: as recorded, or the larger work of its processes."""
    parents = {child.id: child.parent for child in candidates if child.parent is not None}
    for child in candidates:
        if child.parent is not None or child.glance.kind not in ("training", "search"):
            continue
        others = [c for c in candidates if c.id != child.id and _is_larger(c, child)]
        for root in sorted(child.roots):
            process = processes.get(root)
            match = None if process is None else _work_of(process, processes, others, {})
            if match is not None:
                parents[child.id] = match[0]
                break
    return parents


def _is_larger(candidate: Candidate, than: Candidate) -> bool:
    rank = _PARTICULAR.index
    return rank(candidate.glance.kind) > rank(than.glance.kind)
