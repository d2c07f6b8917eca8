"""Runs: one execution each, as a directory.

A run's directory holds ``run.json`` (what was asked, where it ran, how it ended), ``metrics.jsonl``
(a line per epoch), ``checkpoints/``, ``model.safetensors`` and TensorBoard events. It can be read
with ``cat``, copied with ``cp``, and given to TensorBoard as it stands.
"""

from tarmac.runs.catalog import BrokenRun, default_output, list_runs, remove, resolve
from tarmac.runs.compare import Comparison, compare
from tarmac.runs.directory import Run
from tarmac.runs.events import EventWriter
from tarmac.runs.git import git_state
from tarmac.runs.record import (
    SCHEMA_VERSION,
    GitState,
    Parallel,
    Replica,
    RunRecord,
    Session,
    now,
)

__all__ = [
    "SCHEMA_VERSION",
    "BrokenRun",
    "Comparison",
    "EventWriter",
    "GitState",
    "Parallel",
    "Replica",
    "Run",
    "RunRecord",
    "Session",
    "compare",
    "default_output",
    "git_state",
    "list_runs",
    "now",
    "remove",
    "resolve",
]
