"""Pipelines as pure functions: resolved references, and the tasks that follow from results."""

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
