"""The snapshot of `tarmac top`: all facts at one moment, used by all views and outputs.

Numbers carry their unit in the name. None stands for an unknown value: ``-`` on a screen, null in
JSON, absent in metrics.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from tarmac.machine import LiveGpu, LiveHost

SCHEMA_VERSION = 1


@dataclasses.dataclass(frozen=True)
class ProcessRow:
    """A process that holds a GPU.

    Attributes:
        pid: Pid on this machine; None for a process of another PID namespace.
        user: Name of the process's owner.
        command: Command line, shortened and without secrets.
        work: The `Work.id` that it belongs to; None for a process without known work.
        started_at: Start time of the process, UTC.
    """

    pid: int | None
    gpu_uuid: str
    user: str | None = None
    command: str | None = None
    memory_bytes: int | None = None
    sm_ratio: float | None = None
    cpu_ratio: float | None = None
    rss_bytes: int | None = None
    started_at: datetime | None = None
    work: str | None = None
    container: str | None = None
    slurm_job: str | None = None


@dataclasses.dataclass(frozen=True)
class Work:
    """A training, search, job or task at work.

    Attributes:
        id: Name of the work, or ``RUN/PART`` for a part.
        kind: ``training``, ``search``, ``job`` or ``task``.
        parent: The `id` of the work that contains it; None without one.
        gpu_uuids: UUIDs of the GPUs that it uses or was given.
        joined_by: Evidence for its GPUs: ``processes``, ``cgroup``, ``given``, ``slurm`` or
            ``report``.
        user: Name of the user who runs it.
        is_own: Whether this user may stop it.
        ranks: Facts on each rank of a training of several processes, the slowest rank first.
        checkpoint_age_s: Seconds since its newest checkpoint.
        quiet_s: Seconds since it last wrote anything.
        energy_joules: Energy used since it began in joules, where sampled.
        waits: Share of its time spent waiting, 0 to 1, by cause: ``data``, ``ranks``.
        state: ``busy``, ``warming``, ``idle`` (holds a GPU that does nothing), ``hung``,
            ``waiting`` (in a queue), ``unreadable`` (`slow` names the damaged file) or ``ended``.
            Work that has ended stays for five minutes; its `status` is its outcome.
        idle_s: Seconds for which all its GPUs have been idle.
        slow: Reasons why it is slow or unreadable, a line each, the worst first; else empty.
        advice: Command for each line of `slow`; empty where none helps.
        note: Reason why it waits or failed.
    """

    id: str
    kind: str
    path: str
    status: str
    parent: str | None = None
    workload: str | None = None
    user: str | None = None
    is_own: bool = True
    pids: tuple[int, ...] = ()
    gpu_uuids: tuple[str, ...] = ()
    joined_by: str | None = None
    epoch: int | None = None
    epochs: int | None = None
    loss: float | None = None
    metric_name: str | None = None
    metric: float | None = None
    samples_per_s: float | None = None
    eta_s: float | None = None
    checkpoint_age_s: float | None = None
    quiet_s: float | None = None
    energy_joules: float | None = None
    waits: dict[str, float] = dataclasses.field(default_factory=dict)
    retries: int = 0
    done: int | None = None
    total: int | None = None
    ranks: tuple[dict[str, object], ...] = ()
    state: str = "busy"
    idle_s: float | None = None
    slow: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Finding:
    """A problem, found by the last check or since.

    Attributes:
        code: Code in docs/failures.md, or ``xid``, ``ecc``, ``row-remap``.
        level: ``failure``, ``warning`` or ``note``.
        text: Description of the problem in a sentence.
        command: Command to type; empty where none helps.
        gpu_uuid: UUID of the affected GPU. None where no GPU is known.
        at: Time when it was found, UTC.
        is_of_check: Whether the last check found it, before or beside this monitor.
    """

    code: str
    level: str
    text: str
    command: str = ""
    gpu_uuid: str | None = None
    at: datetime | None = None
    is_of_check: bool = False


@dataclasses.dataclass(frozen=True)
class HostSnapshot:
    """One machine at one moment.

    Attributes:
        at: Time when it was read, UTC.
        gpu_states: State of each GPU by UUID: ``busy``, ``free`` (idle and not held), ``held``
            (idle but held) or ``bad``.
        gpu_idle_s: Seconds for which each held GPU has been idle, by UUID.
        no_gpu_reason: Why there is no GPU, in the words of `tarmac check`; empty with a GPU.
        problem: Why the host cannot be read; the other values are then the last known ones.
        age_s: Seconds since the host last answered. None while it answers.
    """

    at: datetime
    host: LiveHost
    gpus: tuple[LiveGpu, ...] = ()
    gpu_states: dict[str, str] = dataclasses.field(default_factory=dict)
    gpu_idle_s: dict[str, float] = dataclasses.field(default_factory=dict)
    processes: tuple[ProcessRow, ...] = ()
    work: tuple[Work, ...] = ()
    findings: tuple[Finding, ...] = ()
    no_gpu_reason: str = ""
    problem: str = ""
    age_s: float | None = None


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """All monitored machines at one moment."""

    at: datetime
    hosts: tuple[HostSnapshot, ...]
    schema_version: int = SCHEMA_VERSION
