"""What `tarmac top` knows at one moment, as a value: all views and outlets are drawn from it.

Numbers carry their unit in the name, and None is what is not known: ``-`` on a screen, null in
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
        pid: As this machine's users see it; None where it is of another PID namespace.
        user: Name of the process's owner.
        command: Its command line without secrets, shortened.
        work: The `Work.id` that it belongs to; None of other people's.
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
        id: Its name; of a part, ``RUN/PART``.
        kind: ``training``, ``search``, ``job`` or ``task``.
        parent: The `id` of what it is a part of.
        gpu_uuids: GPUs that it uses or was given.
        joined_by: How that is known: ``processes``, ``cgroup``, ``given``, ``slurm`` or ``report``.
        user: Name of the user who runs it.
        is_own: Whether this user may stop it.
        ranks: Facts on each rank of a training of several processes, the slowest rank first.
        checkpoint_age_s: Since its newest checkpoint.
        quiet_s: Since it last wrote anything.
        energy_joules: Since it began, where it samples.
        waits: Share of its time by what it waits for: ``data``, ``ranks``.
        state: ``busy``, ``warming``, ``idle`` (holds a GPU that does nothing), ``hung``,
            ``waiting`` (in a queue), ``unreadable`` (`slow` says which file is damaged) or
            ``ended``: it was seen at work, and its `status` says how it ended. Work that has ended
            stays for five minutes.
        idle_s: How long it has been idle.
        slow: Why it is slow or unreadable, a line each, the worst first; empty while it is not.
        advice: A command for each line of `slow`; empty where none helps.
        note: What it waits for, or why it failed.
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
    """What is wrong: of the last check, or seen since.

    Attributes:
        code: Code in docs/failures.md, or ``xid``, ``ecc``, ``row-remap``.
        level: ``failure``, ``warning`` or ``note``.
        text: What, in a sentence.
        command: What to type; empty where nothing helps.
        gpu_uuid: UUID of the affected GPU. None where no GPU is known.
        at: When it was found, UTC.
    """

    code: str
    level: str
    text: str
    command: str = ""
    gpu_uuid: str | None = None
    at: datetime | None = None


@dataclasses.dataclass(frozen=True)
class HostSnapshot:
    """One machine at one moment.

    Attributes:
        at: When it was read, UTC.
        gpu_states: By UUID: ``busy``, ``free`` (idle and nobody's), ``held`` (idle and
            somebody's) or ``bad``.
        gpu_idle_s: By UUID: since when a held GPU does nothing.
        no_gpu_reason: Why there is no GPU, in the words of `tarmac check`; empty where one is.
        problem: Why the host cannot be read; then what is here is what was last known.
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
    """All machines that are watched, at one moment."""

    at: datetime
    hosts: tuple[HostSnapshot, ...]
    schema_version: int = SCHEMA_VERSION
