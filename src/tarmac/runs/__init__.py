"""Runs: one execution each, as a directory.

A training's directory holds ``run.json`` (what was asked, where it ran, how it ended),
``metrics.jsonl`` (a line per epoch), ``checkpoints/``, ``model.safetensors`` and TensorBoard
events. It can be read with ``cat``, copied with ``cp``, and given to TensorBoard as it stands.
Searches and jobs have directories of their own; `Catalogue` finds all of them alike.
"""

from tarmac.runs.catalogue import (
    BrokenRun,
    Catalogue,
    FoundRun,
    RunFacts,
    RunKind,
    RunSummary,
    default_output,
)
from tarmac.runs.comparison import Comparison, compare
from tarmac.runs.directory import Run
from tarmac.runs.events import EventWriter
from tarmac.runs.git import git_state
from tarmac.runs.glance import Glance, Glancer
from tarmac.runs.index import RunIndex
from tarmac.runs.record import (
    SCHEMA_VERSION,
    GitState,
    Parallel,
    Replica,
    RunRecord,
    Session,
    now,
)
from tarmac.runs.training import TRAINING, facts_of, list_runs, resolve
from tarmac.runs.training_glance import glance_training

__all__ = [
    "SCHEMA_VERSION",
    "TRAINING",
    "BrokenRun",
    "Catalogue",
    "Comparison",
    "EventWriter",
    "FoundRun",
    "GitState",
    "Glance",
    "Glancer",
    "Parallel",
    "Replica",
    "Run",
    "RunFacts",
    "RunIndex",
    "RunKind",
    "RunRecord",
    "RunSummary",
    "Session",
    "compare",
    "default_output",
    "facts_of",
    "git_state",
    "glance_training",
    "list_runs",
    "now",
    "resolve",
]
