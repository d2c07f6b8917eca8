"""The runs at work, each with the processes that are known to belong to it; pure.

A run names processes by its lock, its recorded pid, or variables in their environment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.monitor.processes import FileId, Process
    from tarmac.runs import Glance

# A run's process starts before the run; the tolerance covers the resolution of the clocks.
_CLOCK = timedelta(seconds=2)
# Pids in a container are small and reused: a process that started long before is another one.
_RECENT = timedelta(minutes=10)


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A run, or a part of a run, that processes may belong to.

    Attributes:
        id: Identifier of the work, the same as `Work.id`.
        parent: The `id` of the run that contains it; None for a run.
        roots: Pids on this machine that are known to belong to it.
        marks: Values of ``TARMAC_RUN`` in the processes that its job runner has started.
    """

    id: str
    glance: Glance
    parent: str | None = None
    roots: frozenset[int] = frozenset()
    marks: frozenset[str] = frozenset()


def candidates_of(
    glances: Sequence[Glance],
    processes: Mapping[int, Process],
    holders: Mapping[FileId, int],
    locks: Mapping[str, Collection[FileId]],
    children: Mapping[int, Collection[int]],
) -> tuple[Candidate, ...]:
    """Return runs and their parts, each with the processes that are known to belong to it.

    Args:
        glances: Glances of the runs at work.
        processes: All known processes, by pid.
        holders: Pid that holds the lock of each locked file.
        locks: Files that the processes of each run have locked, by run name.
        children: Pids of the child processes of each job runner, by the runner's pid.
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
    """Return whether a process is a rank of a training of which some ranks are known."""
    if "RANK" not in process.variables:
        return False
    if process.parent in roots or process.pid in roots:
        return True
    return is_started_for(
        process, Candidate(glance.name, glance, None, frozenset(roots)), processes
    )


def roots_of(
    glance: Glance,
    processes: Mapping[int, Process],
    holders: Mapping[FileId, int],
    locks: Collection[FileId],
) -> frozenset[int]:
    """Return the processes of this machine that a run names.

    The holder of the run's lock is such a process. If no holder is visible, a process with the
    recorded pid counts, provided that it started before the run. In a container, that pid is the
    container's.

    Args:
        glance: Glance of the run or part, with its recorded pids.
        processes: All known processes, by pid.
        holders: Pid that holds the lock of each locked file.
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


def is_started_for(
    process: Process, candidate: Candidate, processes: Mapping[int, Process]
) -> bool:
    """Return whether a process's environment shows that it works on a candidate.

    A task's process has the mark of its runner. A training's process that another launcher such as
    torchrun has started has the name of the launch, or the same rendezvous as the other ranks.
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
    """Return the name of the launch of a process, as trainings record it."""
    own = process.variables.get("TARMAC_LAUNCH", "")
    elastic = process.variables.get("TORCHELASTIC_RUN_ID", "")
    return own or (f"{elastic}-{process.parent}" if elastic else "")


def _meeting_of(process: Process) -> tuple[str, ...] | None:
    """Return the rendezvous of a distributed training's process; None for a single process."""
    names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
    values = tuple(process.variables.get(name, "") for name in names)
    return values if all(values) and "RANK" in process.variables else None
