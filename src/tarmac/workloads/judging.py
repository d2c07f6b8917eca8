"""What a workload's trainings are judged by, as their records say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.runs import JudgedBy

if TYPE_CHECKING:
    from tarmac.workloads.base import Workload


def judged_by(workload: Workload) -> JudgedBy:
    """Return the metric that a workload's objective counts by, its better end, and all metrics."""
    objective = workload.objective
    return JudgedBy(objective.judged_by, objective.direction, tuple(objective.metrics))
