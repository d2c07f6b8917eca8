"""The `Work` of each run or part: its glance, joined and judged; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from tarmac.monitor.hangs import Rank, find_hang
from tarmac.monitor.idle import WARM_UP_S, idle_of_work, unused_of
from tarmac.monitor.slow import Neighbour, Reason, reasons_of
from tarmac.monitor.snapshot import Finding, Work

if TYPE_CHECKING:
    from tarmac.machine import LiveGpu
    from tarmac.monitor.candidates import Candidate
    from tarmac.monitor.joining import Join
    from tarmac.monitor.processes import Process
    from tarmac.runs import Glance

# Maximum number of Xid findings that are reasons of one work.
_MAX_XIDS = 3


@dataclasses.dataclass(frozen=True)
class Facts:
    """The facts about a machine by which its work is judged.

    Attributes:
        gpus: GPUs of this machine, by UUID.
        processes: Known processes, by process number.
        joined: Processes and GPUs of each work, from `join`.
        idle_s: Seconds for which each held GPU has been idle, by UUID.
        throttled: Share of the last minute with lowered clocks, 0 to 1, by UUID and reason.
        quota_ratio: Share of the periods in which the CPU quota of `group` ran out, 0 to 1.
        group: The control group that this process is in.
        findings: All findings of this machine.
        idle_after_s: Seconds after which a work counts as idle.
        user: Name of the user who runs the monitor.
        now: Time of the look, UTC.
    """

    gpus: Mapping[str, LiveGpu]
    processes: Mapping[int, Process]
    joined: Join
    idle_s: Mapping[str, float]
    throttled: Mapping[str, Mapping[str, float]]
    quota_ratio: float | None
    group: str
    findings: Sequence[Finding]
    idle_after_s: float
    user: str | None
    now: datetime


def is_warming(glance: Glance, now: datetime) -> bool:
    """Return whether a training is before its first epoch, for less than `WARM_UP_S`."""
    if glance.kind != "training" or glance.epoch or glance.step_s is not None:
        return False
    began = glance.started_at or glance.created_at
    return began is None or (now - began).total_seconds() < WARM_UP_S


def work_of(candidate: Candidate, facts: Facts) -> Work:
    """Return the `Work` of a candidate."""
    glance, joined = candidate.glance, facts.joined
    gpu_uuids = joined.gpus_of.get(candidate.id, ())
    pids = joined.pids_of.get(candidate.id, ())
    own = [facts.processes[pid] for pid in pids if pid in facts.processes]
    ranks = _ranks_here(candidate, facts)
    quiet_s = _since(glance.active_at, facts.now)
    idle_s = idle_of_work(gpu_uuids, facts.idle_s)
    reasons = _reasons(candidate, ranks, gpu_uuids, facts)
    state = "busy"
    if glance.status == "unreadable":
        state, reasons = "unreadable", (Reason(1.0, glance.note, ""),)
    elif glance.status == "queued":
        state = "waiting"
    elif idle_s is not None and idle_s >= facts.idle_after_s:
        state = "idle"
    elif is_warming(glance, facts.now):
        state = "warming"
    if glance.kind == "training" and glance.status == "running":
        hang = find_hang(quiet_s, glance.step_s, ranks)
        if hang is not None:
            state = "hung"
            reasons = (Reason(1.0, hang.text, hang.command), *reasons)
    users = [process.user for process in own]
    return Work(
        id=candidate.id,
        kind=glance.kind,
        path=str(glance.path),
        status=glance.status,
        parent=joined.parent_of.get(candidate.id),
        workload=glance.workload,
        user=users[0] if users else None,
        is_own=not users or users[0] == facts.user,
        pids=pids,
        gpu_uuids=gpu_uuids,
        joined_by=joined.joined_by.get(candidate.id),
        epoch=glance.epoch,
        epochs=glance.epochs,
        loss=glance.loss,
        metric_name=glance.metric_name,
        metric=glance.metric,
        samples_per_s=glance.samples_per_s,
        eta_s=glance.eta_s,
        checkpoint_age_s=_since(glance.checkpoint_at, facts.now),
        quiet_s=quiet_s,
        energy_joules=glance.energy_joules,
        waits=dict(glance.waits),
        retries=glance.retries,
        done=glance.done,
        total=glance.total,
        ranks=ranks_of(ranks, glance.ranks),
        state=state,
        idle_s=idle_s,
        slow=tuple(reason.text for reason in reasons),
        advice=tuple(reason.command for reason in reasons),
        note=_note(candidate, facts),
    )


def ranks_of(
    here: Sequence[Rank], recorded: Sequence[Mapping[str, object]]
) -> tuple[dict[str, object], ...]:
    """Return the facts on each rank, the slowest first; empty for a training of one process.

    Args:
        here: Ranks with a process on this machine.
        recorded: Facts on each rank that the training has recorded.
    """
    rows: dict[object, dict[str, object]] = {row.get("rank"): dict(row) for row in recorded}
    for rank in here:
        if rank.rank is None:
            continue
        row = rows.setdefault(rank.rank, {"rank": rank.rank})
        row["pid"] = rank.pid
        row["gpu_uuid"] = None if rank.gpu is None else rank.gpu.uuid
        row["utilization_ratio"] = None if rank.gpu is None else rank.gpu.utilization_ratio
        row["power_watts"] = None if rank.gpu is None else rank.gpu.power_watts
        row["cpu_ratio"] = rank.cpu_ratio
    if len(rows) < 2:
        return ()
    return tuple(sorted(rows.values(), key=_slowness))


def _slowness(row: Mapping[str, object]) -> tuple[float, float]:
    """Return a sort key for the slowest rank first: its rate without waits, then its number."""
    rate, rank = row.get("samples_per_s"), row.get("rank")
    return (
        rate if isinstance(rate, float) else float("inf"),
        rank if isinstance(rank, int) else float("inf"),
    )


def _ranks_here(candidate: Candidate, facts: Facts) -> tuple[Rank, ...]:
    ranks = []
    gpu_of = {
        row.pid: gpu
        for gpu in facts.gpus.values()
        for row in gpu.processes
        if row.pid is not None
        and facts.joined.work_of.get((gpu.uuid, row.driver_pid)) == candidate.id
    }
    for pid in facts.joined.pids_of.get(candidate.id, ()):
        process = facts.processes.get(pid)
        if process is None:
            continue
        number = process.variables.get("RANK", "")
        ranks.append(
            Rank(
                pid=pid,
                rank=int(number) if number.isdecimal() else None,
                gpu=gpu_of.get(pid),
                cpu_ratio=process.cpu_ratio,
                is_stopped=process.is_stopped,
                tells_stack=process.tells_stack,
            )
        )
    return tuple(ranks)


def _reasons(
    candidate: Candidate, ranks: Sequence[Rank], gpu_uuids: Sequence[str], facts: Facts
) -> tuple[Reason, ...]:
    """Return why work is slow; empty for a job, whose tasks have reasons, and for waiting work."""
    glance = candidate.glance
    if glance.kind == "job" or glance.status != "running" or glance.host:
        return ()
    began = glance.started_at or glance.created_at
    xids = [
        finding.text
        for finding in facts.findings
        if finding.code == "xid" and finding.level != "note" and finding.gpu_uuid in gpu_uuids
        if began is None or finding.at is None or finding.at >= began
    ]
    return reasons_of(
        glance.waits,
        [facts.gpus[uuid] for uuid in gpu_uuids if uuid in facts.gpus],
        throttled=facts.throttled,
        quota_ratio=facts.quota_ratio if _shares_quota(candidate, facts) else None,
        neighbours=_neighbours(candidate, gpu_uuids, facts),
        slowest_rank=_slowest(glance, ranks),
        xids=xids[-_MAX_XIDS:],
    )


def _shares_quota(candidate: Candidate, facts: Facts) -> bool:
    """Return whether work is in the control group, and so under the CPU quota, of this process."""
    own = (facts.processes[pid] for pid in candidate.roots if pid in facts.processes)
    return any(f"{process.group}/".startswith(facts.group.rstrip("/") + "/") for process in own)


def _slowest(glance: Glance, ranks: Sequence[Rank]) -> str:
    rows = ranks_of(ranks, glance.ranks)
    if not rows or rows[0].get("samples_per_s") is None:
        return ""
    host = rows[0].get("host")
    return f"rank {rows[0]['rank']}" + (f" on {host}" if host else "")


def _neighbours(
    candidate: Candidate, gpu_uuids: Sequence[str], facts: Facts
) -> tuple[Neighbour, ...]:
    family = _family(candidate.id, facts.joined.parent_of)
    neighbours = []
    for uuid in gpu_uuids:
        gpu = facts.gpus.get(uuid)
        for row in () if gpu is None else gpu.processes:
            work = facts.joined.work_of.get((uuid, row.driver_pid))
            if row.sm_ratio is None or gpu is None or work in family:
                continue
            process = facts.processes.get(row.pid) if row.pid is not None else None
            name = work or "another process"
            if work is None and process is not None:
                program = process.command.partition(" ")[0].rpartition("/")[2]
                name = f"{process.user}'s {program} ({process.pid})"
            neighbours.append(Neighbour(gpu.index, row.sm_ratio, name))
    return tuple(neighbours)


def _family(work: str, parent_of: Mapping[str, str]) -> Collection[str]:
    """Return a work with its ancestors and all its parts."""
    family = {work}
    at: str | None = work
    while at is not None:
        at = parent_of.get(at)
        if at is None or at in family:
            break
        family.add(at)
    below = {work}
    while more := {c for c, parent in parent_of.items() if parent in below} - below:
        below |= more
    return family | below


def _note(candidate: Candidate, facts: Facts) -> str:
    if candidate.glance.status == "unreadable":
        return ""
    if candidate.glance.note or candidate.glance.status != "running":
        return candidate.glance.note
    family = _family(candidate.id, facts.joined.parent_of)
    used = {uuid for (uuid, _), work in facts.joined.work_of.items() if work in family}
    unused = unused_of(facts.joined.given_of.get(candidate.id, ()), used)
    indices = ", ".join(str(facts.gpus[uuid].index) for uuid in unused if uuid in facts.gpus)
    return f"no process of it is on GPU {indices}" if indices else ""


def _since(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else max(0.0, (now - moment).total_seconds())
