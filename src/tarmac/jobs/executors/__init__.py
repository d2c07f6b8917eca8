"""Executors: the places where tasks run, such as `local`, all behind one interface."""

from tarmac.jobs.executors.events import (
    DISTURBANCES,
    Began,
    Cause,
    Event,
    Finished,
    Queued,
    Requeued,
    Waiting,
)
from tarmac.jobs.executors.interface import (
    Attempt,
    Busy,
    Executor,
    ExecutorKind,
    Outcome,
    Site,
    is_retried,
)
from tarmac.jobs.executors.local import LocalExecutor
from tarmac.jobs.executors.registry import executor_names, find_executor, outlives_runner
from tarmac.jobs.executors.runners import RunnerEngine, RunnerJob, RunnerState

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
