"""Executors: where tasks run. `local` is here, others join it behind the same interface."""

from tarmac.jobs.executors.interface import (
    Attempt,
    Busy,
    Executor,
    ExecutorKind,
    Finished,
    Outcome,
    Site,
    is_retried,
)
from tarmac.jobs.executors.local import LocalExecutor
from tarmac.jobs.executors.registry import executor_names, find_executor

__all__ = [
    "Attempt",
    "Busy",
    "Executor",
    "ExecutorKind",
    "Finished",
    "LocalExecutor",
    "Outcome",
    "Site",
    "executor_names",
    "find_executor",
    "is_retried",
]
