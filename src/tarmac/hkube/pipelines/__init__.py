"""Pipelines as pure functions: what references stand for, which tasks follow from which results."""

from tarmac.hkube.pipelines.interface import (
    NodeFailure,
    NodeForecast,
    NodeTask,
    NodeTasks,
)
from tarmac.hkube.pipelines.state import PipelineState

__all__ = [
    "NodeFailure",
    "NodeForecast",
    "NodeTask",
    "NodeTasks",
    "PipelineState",
]
