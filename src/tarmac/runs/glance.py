"""What a monitor shows of a run at work, read from its directory alone, without a framework."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from tarmac.files import Readings


@dataclasses.dataclass(frozen=True)
class Glance:
    """A run, or a part of one, at this moment; None stands for what is not known.

    Attributes:
        kind: ``training``, ``search``, ``job`` or ``task``.
        name: The run's, or of a task ``RUN/TASK``.
        path: Directory of the run or of its part.
        status: As its `RunSummary` says it.
        workload: What is trained or searched.
        pids: Processes of this machine that work on it, the roots of their trees, by the numbers
            that they have themselves: in a container, the container's.
        locks: Files that those processes have locked, which tells them from all others that have
            such numbers.
        variables: What the environment of each of its processes has, such as ``TARMAC_TASK_INDEX``
            of a task's; empty where they are not told by it.
        uuids: GPUs that it says itself it computes on, by UUID; empty where it says none.
        container: The name of the container that it runs in; empty if none.
        slurm_job: The Slurm job that it belongs to, such as ``80_3``; empty if none.
        host: Where it runs; empty for this machine.
        gpus: UUIDs or indices of the GPUs that it was given; None where that is not on record.
        created_at: When it was made, UTC.
        started_at: When its last session or attempt began, UTC.
        epoch: Number of completed epochs.
        metric_name: Name of `metric`, such as ``test_accuracy``.
        samples_per_s: In training, at the last epoch.
        eta_s: Seconds that are left.
        checkpoint_at: When its newest checkpoint was written.
        gpus_active_at: When its GPUs last did anything, by UUID, as far as it samples them.
        active_at: When it last wrote anything.
        step_s: The median time from one sign of life to the next, in seconds; None before there
            are two.
        waits: Share of its time, 0 to 1, by what it waited for: ``data``, ``ranks``.
        energy_joules: That it has taken since it began, where it samples that.
        ranks: Record of each rank of a training of several processes: ``rank``, ``host``,
            ``samples_per_s``, ``waiting_s``.
        retries: Attempts or sessions before this one.
        done: Parts that have ended: tasks of a job, trials of a search.
        total: Number of parts in all, ended or not.
        note: Why it waits or failed, in words.
        parts: Tasks of a job, trainings of a search, that are at work.
    """

    kind: str
    name: str
    path: Path
    status: str
    workload: str | None = None
    pids: tuple[int, ...] = ()
    locks: tuple[Path, ...] = ()
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    uuids: tuple[str, ...] = ()
    container: str = ""
    slurm_job: str = ""
    host: str = ""
    gpus: tuple[str, ...] | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    epoch: int | None = None
    epochs: int | None = None
    loss: float | None = None
    metric_name: str | None = None
    metric: float | None = None
    samples_per_s: float | None = None
    eta_s: float | None = None
    checkpoint_at: datetime | None = None
    gpus_active_at: dict[str, datetime] = dataclasses.field(default_factory=dict)
    active_at: datetime | None = None
    step_s: float | None = None
    waits: dict[str, float] = dataclasses.field(default_factory=dict)
    energy_joules: float | None = None
    ranks: tuple[dict[str, object], ...] = ()
    retries: int = 0
    done: int | None = None
    total: int | None = None
    note: str = ""
    parts: tuple[Glance, ...] = ()


class Glancer(Protocol):
    """Reads a run's glance; a `RunKind` has one."""

    def __call__(self, path: Path, readings: Readings | None = None) -> Glance:
        """Return what there is to see of a run.

        Args:
            path: Its directory, which may be in the making, or gone by now.
            readings: Cache of a reader that looks repeatedly. Unchanged files are not read again.
                Default: none.
        """
        ...
