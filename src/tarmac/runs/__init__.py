"""Runs: one execution each, as a directory.

A training's directory holds ``run.json`` (what was asked, where it ran, how it ended),
``metrics.jsonl`` (a line per epoch), ``samples.jsonl`` (its GPUs and its host over time),
``checkpoints/``, ``model.safetensors`` and TensorBoard events. It can be read with ``cat``, copied
with ``cp``, and given to TensorBoard as it stands.
Searches and jobs have directories of their own; `Catalogue` finds all of them alike.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.runs.catalogue import (
        BrokenRun,
        Catalogue,
        FoundRun,
        RunFacts,
        RunKind,
        RunSummary,
        default_output,
        refuse_empty,
    )
    from tarmac.runs.comparison import Comparison, compare
    from tarmac.runs.directory import Run
    from tarmac.runs.events import EventWriter, graph_events
    from tarmac.runs.git import git_state
    from tarmac.runs.glance import Glance, Glancer
    from tarmac.runs.index import RunIndex
    from tarmac.runs.judging import Direction, JudgedBy, bare_name, name_words
    from tarmac.runs.layers import LAYERS, Layer, layer_rows, read_layers, write_layers
    from tarmac.runs.predictions import PREDICTIONS, Mistake, Predictions, read_predictions
    from tarmac.runs.record import (
        SCHEMA_VERSION,
        Best,
        GitState,
        Parallel,
        Replica,
        RunRecord,
        Session,
        now,
    )
    from tarmac.runs.sample_file import SampleFile
    from tarmac.runs.samples import (
        GpuSamples,
        SampleEvent,
        Samples,
        read_all_samples,
        read_samples,
        samples_path,
    )
    from tarmac.runs.training import TRAINING, facts_of, list_runs, resolve
    from tarmac.runs.training_glance import glance_training

__all__ = [
    "LAYERS",
    "PREDICTIONS",
    "SCHEMA_VERSION",
    "TRAINING",
    "Best",
    "BrokenRun",
    "Catalogue",
    "Comparison",
    "Direction",
    "EventWriter",
    "FoundRun",
    "GitState",
    "Glance",
    "Glancer",
    "GpuSamples",
    "JudgedBy",
    "Layer",
    "Mistake",
    "Parallel",
    "Predictions",
    "Replica",
    "Run",
    "RunFacts",
    "RunIndex",
    "RunKind",
    "RunRecord",
    "RunSummary",
    "SampleEvent",
    "SampleFile",
    "Samples",
    "Session",
    "bare_name",
    "compare",
    "default_output",
    "facts_of",
    "git_state",
    "glance_training",
    "graph_events",
    "layer_rows",
    "list_runs",
    "name_words",
    "now",
    "read_all_samples",
    "read_layers",
    "read_predictions",
    "read_samples",
    "refuse_empty",
    "resolve",
    "samples_path",
    "write_layers",
]

# Where a name is at home.
_MODULES = {
    "LAYERS": "layers",
    "PREDICTIONS": "predictions",
    "SCHEMA_VERSION": "record",
    "TRAINING": "training",
    "Best": "record",
    "BrokenRun": "catalogue",
    "Catalogue": "catalogue",
    "Comparison": "comparison",
    "Direction": "judging",
    "EventWriter": "events",
    "FoundRun": "catalogue",
    "GitState": "record",
    "Glance": "glance",
    "Glancer": "glance",
    "GpuSamples": "samples",
    "JudgedBy": "judging",
    "Layer": "layers",
    "Mistake": "predictions",
    "Parallel": "record",
    "Predictions": "predictions",
    "Replica": "record",
    "Run": "directory",
    "RunFacts": "catalogue",
    "RunIndex": "index",
    "RunKind": "catalogue",
    "RunRecord": "record",
    "RunSummary": "catalogue",
    "SampleEvent": "samples",
    "SampleFile": "sample_file",
    "Samples": "samples",
    "Session": "record",
    "bare_name": "judging",
    "compare": "comparison",
    "default_output": "catalogue",
    "facts_of": "training",
    "git_state": "git",
    "glance_training": "training_glance",
    "graph_events": "events",
    "layer_rows": "layers",
    "list_runs": "training",
    "name_words": "judging",
    "now": "record",
    "read_all_samples": "samples",
    "read_layers": "layers",
    "read_predictions": "predictions",
    "read_samples": "samples",
    "refuse_empty": "catalogue",
    "resolve": "training",
    "samples_path": "samples",
    "write_layers": "layers",
}


def __getattr__(name: str) -> object:
    """Import a module when a name of it is first used: one picture needs few of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
