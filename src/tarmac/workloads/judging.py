"""The metric that judges a workload's trainings, as stored in run records."""

from __future__ import annotations

from tarmac.runs import JudgedBy
from tarmac.workloads.base import Workload


def judged_by(workload: Workload) -> JudgedBy:
    """Return the metric that judges a workload, its better direction, and all metrics."""
    objective = workload.objective
    return JudgedBy(objective.judged_by, objective.direction, tuple(objective.metrics))
