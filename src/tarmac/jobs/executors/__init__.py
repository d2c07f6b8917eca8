"""Executors: the places where tasks run.

`local` is here; Slurm, Ray and Kubernetes will stand beside it behind the same interface.
"""

from tarmac.jobs.executors.interface import (
    Attempt,
    Busy,
    Executor,
    Finished,
    Grant,
    Outcome,
    is_retried,
)
from tarmac.jobs.executors.local import LocalExecutor

__all__ = [
    "Attempt",
    "Busy",
    "Executor",
    "Finished",
    "Grant",
    "LocalExecutor",
    "Outcome",
    "is_retried",
]
