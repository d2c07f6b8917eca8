"""What a monitor shows of a run at work, read from its directory alone, without a framework."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

__all__ = ["Glance"]


@dataclasses.dataclass(frozen=True)
class Glance:
    """A run, or a part of one, at this moment; None stands for what is not known.

    Attributes:
        kind: ``training``, ``search``, ``job`` or ``task``.
        name: The run's, or of a task ``RUN/TASK``.
        path: Its directory.
        status: As its `RunSummary` says it.
        workload: What is trained or searched.
        pids: Processes of this machine that work on it, the roots of their trees.
        mark: What the environment of each of its processes has as ``TARMAC_MARK``; empty if none.
        container: The name of the container that it runs in; empty if none.
        slurm_job: The Slurm job that it belongs to; empty if none.
        host: Where it runs; empty for this machine.
        gpus: UUIDs or indices of the GPUs that it was given; empty where it was given none.
        epoch: Epochs done.
        metric_name: Of `metric`, such as ``test_accuracy``.
        samples_per_s: In training, at the last epoch.
        eta_s: Seconds that are left.
        checkpoint_at: When its newest checkpoint was written.
        active_at: When it last wrote anything.
        step_s: The median time from one sign of life to the next, in seconds.
        waits: Share of its time, 0 to 1, by what it waited for: ``data``, ``ranks``.
        retries: Attempts or sessions before this one.
        done: Parts that have ended: tasks of a job, trials of a search.
        total: Parts in all.
        note: Why it waits or failed, in words.
        parts: Tasks of a job, trainings of a search, that are at work.
    """

    kind: str
    name: str
    path: Path
    status: str
    workload: str | None = None
    pids: tuple[int, ...] = ()
    mark: str = ""
    container: str = ""
    slurm_job: str = ""
    host: str = ""
    gpus: tuple[str, ...] = ()
    created_at: datetime | None = None
    epoch: int | None = None
    epochs: int | None = None
    loss: float | None = None
    metric_name: str | None = None
    metric: float | None = None
    samples_per_s: float | None = None
    eta_s: float | None = None
    checkpoint_at: datetime | None = None
    active_at: datetime | None = None
    step_s: float | None = None
    waits: dict[str, float] = dataclasses.field(default_factory=dict)
    retries: int = 0
    done: int | None = None
    total: int | None = None
    note: str = ""
    parts: tuple[Glance, ...] = ()
