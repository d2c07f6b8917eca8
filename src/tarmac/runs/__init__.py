"""Runs: executions of trainings, searches and jobs, each with a directory.

A training's directory holds ``run.json`` (settings, environment, outcome), ``metrics.jsonl`` (a
line per epoch), ``samples.jsonl`` (its GPUs and its host over time), ``checkpoints/``,
``model.safetensors`` and TensorBoard events. ``cat``, ``cp`` and TensorBoard work on these files
directly. Searches and jobs have directories of their own; `Catalogue` finds all of them alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.lazy import lazy_names

if TYPE_CHECKING:
    from tarmac.runs.catalogue import Catalogue as Catalogue
    from tarmac.runs.catalogue import default_output as default_output
    from tarmac.runs.comparison import Comparison as Comparison
    from tarmac.runs.comparison import compare as compare
    from tarmac.runs.directory import Run as Run
    from tarmac.runs.events import EventWriter as EventWriter
    from tarmac.runs.events import graph_events as graph_events
    from tarmac.runs.git import git_state as git_state
    from tarmac.runs.glance import Glance as Glance
    from tarmac.runs.glance import Glancer as Glancer
    from tarmac.runs.index import RunIndex as RunIndex
    from tarmac.runs.judging import Direction as Direction
    from tarmac.runs.judging import JudgedBy as JudgedBy
    from tarmac.runs.judging import bare_name as bare_name
    from tarmac.runs.judging import name_words as name_words
    from tarmac.runs.kind import AT_WORK as AT_WORK
    from tarmac.runs.kind import BrokenRun as BrokenRun
    from tarmac.runs.kind import FoundRun as FoundRun
    from tarmac.runs.kind import RunFacts as RunFacts
    from tarmac.runs.kind import RunKind as RunKind
    from tarmac.runs.kind import RunSummary as RunSummary
    from tarmac.runs.layers import LAYERS as LAYERS
    from tarmac.runs.layers import Layer as Layer
    from tarmac.runs.layers import layer_rows as layer_rows
    from tarmac.runs.layers import read_layers as read_layers
    from tarmac.runs.layers import write_layers as write_layers
    from tarmac.runs.predictions import PREDICTIONS as PREDICTIONS
    from tarmac.runs.predictions import Mistake as Mistake
    from tarmac.runs.predictions import Predictions as Predictions
    from tarmac.runs.predictions import read_predictions as read_predictions
    from tarmac.runs.record import SCHEMA_VERSION as SCHEMA_VERSION
    from tarmac.runs.record import Best as Best
    from tarmac.runs.record import GitState as GitState
    from tarmac.runs.record import Parallel as Parallel
    from tarmac.runs.record import Replica as Replica
    from tarmac.runs.record import RunRecord as RunRecord
    from tarmac.runs.record import Session as Session
    from tarmac.runs.record import now as now
    from tarmac.runs.sample_file import SampleFile as SampleFile
    from tarmac.runs.samples import GpuSamples as GpuSamples
    from tarmac.runs.samples import SampleEvent as SampleEvent
    from tarmac.runs.samples import Samples as Samples
    from tarmac.runs.samples import read_all_samples as read_all_samples
    from tarmac.runs.samples import read_samples as read_samples
    from tarmac.runs.samples import samples_path as samples_path
    from tarmac.runs.training import TRAINING as TRAINING
    from tarmac.runs.training import facts_of as facts_of
    from tarmac.runs.training import list_runs as list_runs
    from tarmac.runs.training import resolve as resolve
    from tarmac.runs.training_glance import glance_training as glance_training
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
