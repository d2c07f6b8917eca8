"""Executors: the places where tasks run, such as `local`, all behind one interface."""

from tarmac.executors.events import (
    DISTURBANCES,
    Began,
    Cause,
    Event,
    Finished,
    Queued,
    Requeued,
    Waiting,
)
from tarmac.executors.interface import (
    Attempt,
    Busy,
    Executor,
    ExecutorKind,
    Outcome,
    Site,
    is_retried,
)
from tarmac.executors.local import LocalExecutor
from tarmac.executors.registry import executor_names, find_executor, outlives_runner
from tarmac.executors.runners import RunnerEngine, RunnerJob, RunnerState

__all__ = [
    "DISTURBANCES",
    "Attempt",
    "Began",
    "Busy",
    "Cause",
    "Event",
    "Executor",
    "ExecutorKind",
    "Finished",
    "LocalExecutor",
    "Outcome",
    "Queued",
    "Requeued",
    "RunnerEngine",
    "RunnerJob",
    "RunnerState",
    "Site",
    "Waiting",
    "executor_names",
    "find_executor",
    "is_retried",
    "outlives_runner",
]
