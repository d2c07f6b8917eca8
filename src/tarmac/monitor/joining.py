"""Which work a process on a GPU belongs to, and which GPUs a work has; pure.

The surest sign wins. ``processes``: a process that the run names is the process, or has started
it. ``cgroup``: it is in the control group or the container of one that is. ``given``: the GPU was
given to the work. ``slurm``: both are of one job of a cluster. ``report``: the run says where
it computes, which is all there is where the driver names processes of another PID namespace.
"""

from __future__ import annotations

import dataclasses
import os.path
import re
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tarmac.machine import LiveGpu
    from tarmac.monitor.processes import FileId, Process
    from tarmac.runs import Glance

# The surest first.
_SURENESS = ("processes", "cgroup", "given", "slurm", "report")

# Of several works with one process the most particular one is meant.
_PARTICULAR = ("training", "search", "task", "job")

# A run is begun by a process that began before it; clocks are read in steps.
_CLOCK = timedelta(seconds=2)
# In a container, numbers are small and come again: whoever began long before is another one.
_RECENT = timedelta(minutes=10)

# Control groups that hold one work alone: Tarmac's own, containers' and Slurm's steps.
_PARTICULAR_GROUP = re.compile(
    r".*/(?:tarmac-[^/]+|[^/]*[0-9a-f]{64}[^/]*|job_\d+(?:/step_[^/]+)?)"
)

# What Tarmac calls the container or the control group of a task's attempt.
_ATTEMPT_NAME = re.compile(r"tarmac-(?P<mark>[0-9a-f]+)-(?P<index>\d+)-(?P<number>\d+)(?:-\d+)?$")


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A run or a part of one that processes may belong to.

    Attributes:
        id: Identifier of the work, the same as `Work.id`.
        parent: The `id` of what it is a part of.
        roots: Processes of this machine that are known to be its own.
        marks: What ``TARMAC_RUN`` is in processes of a job; those of its runner.
    """

    id: str
    glance: Glance
    parent: str | None = None
    roots: frozenset[int] = frozenset()
    marks: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Join:
    """What belongs together.

    Attributes:
        work_of: The work of each process on a GPU, by GPU's UUID and the driver's number for the
            process; others' processes are not in it.
        pids_of: By work, its processes that are known: roots, and those on GPUs.
        gpus_of: By work, the UUIDs of its GPUs, in the GPUs' order.
        given_of: Those of them that it was given, whether or not a process of it is there.
        joined_by: By work, the surest sign.
        parent_of: By work, what it is a part of; also what only its processes tell.
    """

    work_of: Mapping[tuple[str, int], str]
    pids_of: Mapping[str, tuple[int, ...]]
    gpus_of: Mapping[str, tuple[str, ...]]
    given_of: Mapping[str, tuple[str, ...]]
    joined_by: Mapping[str, str]
    parent_of: Mapping[str, str]


def candidates_of(
    glances: Sequence[Glance],
    processes: Mapping[int, Process],
    holders: Mapping[FileId, int],
    locks: Mapping[str, Collection[FileId]],
    children: Mapping[int, Collection[int]],
) -> tuple[Candidate, ...]:
    """Return runs and their parts, each with the processes that are known to be its own.

    Args:
        glances: Glances of the runs at work.
        processes: All known processes, by number.
        holders: By locked file, the number of the process that holds the lock.
        locks: By run name, the files that the run's processes have locked.
        children: By number of a job runner's process, the numbers of its child processes.
    """
    candidates: list[Candidate] = []
    for glance in glances:
        roots = roots_of(glance, processes, holders, locks.get(glance.name, ()))
        started = [
            processes[child]
            for root in roots
            for child in children.get(root, ())
            if child in processes
        ]
        if glance.kind == "training":
            roots |= {
                process.pid
                for process in processes.values()
                if _is_rank_of(process, glance, roots, processes)
            }
        marks = frozenset(
            child.variables["TARMAC_RUN"] for child in started if "TARMAC_RUN" in child.variables
        )
        candidates.append(Candidate(glance.name, glance, None, roots, marks))
        for part in glance.parts:
            own = roots_of(part, processes, holders, locks.get(part.name, ()))
            own |= {child.pid for child in started if _has_variables(child, part)}
            candidates.append(Candidate(part.name, part, glance.name, frozenset(own), marks))
    return tuple(candidates)


def _is_rank_of(
    process: Process, glance: Glance, roots: Collection[int], processes: Mapping[int, Process]
) -> bool:
    """Whether a process is one of those that train together, of which some are known."""
    if "RANK" not in process.variables:
        return False
    if process.parent in roots or process.pid in roots:
        return True
    return _is_started_for(
        process, Candidate(glance.name, glance, None, frozenset(roots)), processes
    )


def roots_of(
    glance: Glance,
    processes: Mapping[int, Process],
    holders: Mapping[FileId, int],
    locks: Collection[FileId],
) -> frozenset[int]:
    """Return the processes of this machine that a run names.

    Who holds its lock is one. Where that cannot be seen, a process with the number that the run has
    written down is, if it began before; in a container that number is the container's.

    Args:
        glance: Glance of the run or part, with its process numbers.
        processes: All known processes, by number.
        holders: By locked file, the number of the process that holds the lock.
        locks: The files that the run's processes have locked.
    """
    held = {holders[lock] for lock in locks if lock in holders}
    if held:
        return frozenset(held)
    return frozenset(
        process.pid
        for process in processes.values()
        if process.inner_pid in glance.pids and _may_have_begun(process, glance)
    )


def join(
    gpus: Sequence[LiveGpu],
    processes: Mapping[int, Process],
    candidates: Sequence[Candidate],
    names: Mapping[str, str] | None = None,
) -> Join:
    """Join processes on GPUs, and the GPUs themselves, to work.

    Args:
        gpus: GPUs with the processes on each.
        processes: All that are known, by number, with those above them.
        candidates: Runs and parts that the processes may belong to.
        names: By container ID, the container's name. Default: none.
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
    """Return the Slurm job that a process is of, as Slurm writes it; None of none."""
    array, task = (process.variables.get(f"SLURM_ARRAY_{n}") for n in ("JOB_ID", "TASK_ID"))
    return f"{array}_{task}" if array and task else process.variables.get("SLURM_JOB_ID")


def _work_of(
    process: Process,
    processes: Mapping[int, Process],
    candidates: Sequence[Candidate],
    names: Mapping[str, str],
) -> tuple[str, str] | None:
    """Return a process's work, and by which sign."""
    line = [*_line(process, processes)]
    for ancestor in line:
        if (
            candidate := _most_particular(c for c in candidates if ancestor.pid in c.roots)
        ) is not None:
            return candidate.id, "processes"
    for ancestor in line:
        fitting = (c for c in candidates if _is_started_for(ancestor, c, processes))
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
    """Yield a process and those above it, upwards."""
    seen: set[int] = set()
    at: Process | None = process
    while at is not None and at.pid not in seen:
        seen.add(at.pid)
        yield at
        at = processes.get(at.parent)


def _most_particular(found: Iterator[Candidate]) -> Candidate | None:
    return min(found, key=lambda one: _PARTICULAR.index(one.glance.kind), default=None)


def _may_have_begun(process: Process, glance: Glance) -> bool:
    began = glance.started_at
    if began is None:
        return process.inner_pid == process.pid
    is_before = process.started_at <= began + _CLOCK
    if process.inner_pid == process.pid:
        return is_before
    return is_before and process.started_at >= began - _RECENT


def _has_variables(process: Process, glance: Glance) -> bool:
    wanted = glance.variables
    return bool(wanted) and all(process.variables.get(n) == value for n, value in wanted.items())


def _is_started_for(
    process: Process, candidate: Candidate, processes: Mapping[int, Process]
) -> bool:
    """Whether a process's environment says that it works on a candidate.

    A task's has the mark of its runner. A training's, which another launcher such as torchrun has
    started, has the launch's name, or meets the others at the same place.
    """
    glance = candidate.glance
    if glance.kind == "task":
        mark = process.variables.get("TARMAC_RUN")
        return mark in candidate.marks and _has_variables(process, glance)
    if glance.kind != "training":
        return False
    launch = glance.variables.get("TARMAC_LAUNCH")
    if launch and launch == _launch_of(process):
        return True
    place = _meeting_of(process)
    roots = (processes[pid] for pid in candidate.roots if pid in processes)
    return place is not None and any(
        _meeting_of(root) == place and root.uid == process.uid for root in roots
    )


def _launch_of(process: Process) -> str:
    """Return the name of the launch that a process is of, as trainings record it."""
    own = process.variables.get("TARMAC_LAUNCH", "")
    elastic = process.variables.get("TORCHELASTIC_RUN_ID", "")
    return own or (f"{elastic}-{process.parent}" if elastic else "")


def _meeting_of(process: Process) -> tuple[str, ...] | None:
    """Return where processes that train together meet; None of one that trains alone."""
    names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
    values = tuple(process.variables.get(name, "") for name in names)
    return values if all(values) and "RANK" in process.variables else None


def _shares_group(
    process: Process,
    candidate: Candidate,
    processes: Mapping[int, Process],
    names: Mapping[str, str],
) -> bool:
    """Whether a process is in a control group, or a container, that is a candidate's alone."""
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
    """Return the GPUs that a task was given, as is on record, or as its program was told.

    The record comes first: what starts a container has the variables of whoever started the job.
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
    """Return the works of processes that have no number here: of a GPU that one work alone has."""
    works: dict[tuple[str, int], str] = {}
    for gpu in gpus:
        there = [c for c in candidates if gpu.uuid in used.get(c.id, ())]
        trainings = [c for c in there if c.glance.kind == "training"] or there
        unknown = [row for row in gpu.processes if row.pid is None or row.pid not in processes]
        if len(trainings) == 1 and len(unknown) == 1:
            works[gpu.uuid, unknown[0].driver_pid] = trainings[0].id
    return works


def _parents(candidates: Sequence[Candidate], processes: Mapping[int, Process]) -> dict[str, str]:
    """Return what each candidate is a part of: as it says, or as what started its processes is."""
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
