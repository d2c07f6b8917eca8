"""A monitor's view of an active run, from its directory alone, without a framework."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from tarmac.files import Readings


@dataclasses.dataclass(frozen=True)
class Glance:
    """The present state of a run or of a part of it; None stands for an unknown value.

    Attributes:
        kind: ``training``, ``search``, ``job`` or ``task``.
        name: Name of the run, or ``RUN/TASK`` for a task.
        path: Directory of the run or the part.
        status: Status of the run, as in its `RunSummary`.
        workload: Workload that is trained or searched.
        pids: Root processes of the run on this machine, by their own pids: in a container, the
            container's.
        locks: Files locked by those processes, which distinguish them from other processes with the
            same pids.
        variables: Environment variables of all processes of the run, such as ``TARMAC_TASK_INDEX``
            of a task; empty where no variable identifies them.
        uuids: UUIDs of the GPUs that the run records; empty where it records none.
        container: Name of the run's container; empty without a container.
        slurm_job: Id of the run's Slurm job, such as ``80_3``; empty without a job.
        host: Host of the run; empty for this machine.
        gpus: UUIDs or indices of the granted GPUs; None where they are not recorded.
        created_at: Time when the run was created, UTC.
        started_at: Time when the last session or attempt began, UTC.
        epoch: Number of completed epochs.
        metric_name: Name of `metric`, such as ``test_accuracy``.
        samples_per_s: Training samples per second in the last epoch.
        eta_s: Estimated seconds until the end.
        checkpoint_at: Time of the newest checkpoint.
        gpus_active_at: Time of each GPU's last activity, by UUID, as far as sampled.
        active_at: Time of the run's last write.
        step_s: Median time between two signs of progress in seconds; None before there are two.
        waits: Share of time spent waiting, 0 to 1, by cause: ``data``, ``ranks``.
        energy_joules: Energy used since the start in joules, where sampled.
        ranks: Record of each rank of a training of several processes: ``rank``, ``host``,
            ``samples_per_s``, ``waiting_s``.
        retries: Number of attempts or sessions before this one.
        done: Number of ended parts: tasks of a job, trials of a search.
        total: Number of parts in all, ended or not.
        note: Why the run waits or failed.
        parts: Active tasks of a job, or active trainings of a search.
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
    """A function that reads a run's glance.

    It raises nothing for damaged files: an unreadable value is unknown.
    """

    def __call__(self, path: Path, readings: Readings | None = None) -> Glance:
        """Return a run's glance.

        Args:
            path: Directory of the run, which may be incomplete or already deleted.
            readings: Cache for repeated calls, so that unchanged files are not read again. Default:
                none.
        """
        ...
