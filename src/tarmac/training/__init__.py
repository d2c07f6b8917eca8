"""Training of one workload on the local devices, into a run that can be resumed.

``planning`` resolves options and settings into a `Plan`, which holds only values.
``engine`` computes the steps. ``processes`` handles process groups and knows nothing of training.
``session`` drives an engine through a run, in this process or in several.
"""

from __future__ import annotations

from tarmac.training.engine.all_reduce import AllReduce
from tarmac.training.engine.columns import samples_of
from tarmac.training.engine.model import bind_dataset, build_model
from tarmac.training.engine.optimizers import FlatOptimizer
from tarmac.training.engine.parameters import Group, Parameters
from tarmac.training.engine.prediction import call_model, predict
from tarmac.training.engine.recorder import GraphRecorder
from tarmac.training.engine.replica import Replica
from tarmac.training.engine.scoring import Score
from tarmac.training.engine.step_runner import StepRunner, Steps
from tarmac.training.engine.strategies import find_strategy, strategy_names
from tarmac.training.engine.strategy import Strategy, StrategySpec
from tarmac.training.engine.team import Team
from tarmac.training.initial import fit_weights
from tarmac.training.plan import Plan, Precision, Setting
from tarmac.training.planning.devices import ONE_OF_SEVERAL
from tarmac.training.planning.fused import why_not_plain_classes
from tarmac.training.planning.make import make_plan
from tarmac.training.planning.options import Options
from tarmac.training.planning.precision import choose_precision
from tarmac.training.planning.settings import (
    apply_settings,
    optional_types,
    settings_of,
    show_setting,
    typed_setting,
    unknown_setting,
)
from tarmac.training.planning.sharding import check_sharding
from tarmac.training.planning.trial import first_samples, try_model
from tarmac.training.session.averaged import read_scored_weights
from tarmac.training.session.download import fetch_run
from tarmac.training.session.mistakes import look_at_mistakes
from tarmac.training.session.modes import denormals_flushed, threads_within_limits
from tarmac.training.session.origin import Checkpoint, find_weights
from tarmac.training.session.patience import Patience
from tarmac.training.session.record import expectation_of, input_record, options_of
from tarmac.training.session.recorded_workload import workload_of
from tarmac.training.session.reporter import Reporter, Silent
from tarmac.training.session.scoring import plan_to_score, score_test
from tarmac.training.session.stop_request import StopRequest
from tarmac.training.session.upload import uploaded
from tarmac.training.shares import order_of
from tarmac.training.verb import extend, resume, train

__all__ = [
    "ONE_OF_SEVERAL",
    "AllReduce",
    "Checkpoint",
    "FlatOptimizer",
    "GraphRecorder",
    "Group",
    "Options",
    "Parameters",
    "Patience",
    "Plan",
    "Precision",
    "Replica",
    "Reporter",
    "Score",
    "Setting",
    "Silent",
    "StepRunner",
    "Steps",
    "StopRequest",
    "Strategy",
    "StrategySpec",
    "Team",
    "apply_settings",
    "bind_dataset",
    "build_model",
    "call_model",
    "check_sharding",
    "choose_precision",
    "denormals_flushed",
    "expectation_of",
    "extend",
    "fetch_run",
    "find_strategy",
    "find_weights",
    "first_samples",
    "fit_weights",
    "input_record",
    "look_at_mistakes",
    "make_plan",
    "optional_types",
    "options_of",
    "order_of",
    "plan_to_score",
    "predict",
    "read_scored_weights",
    "resume",
    "samples_of",
    "score_test",
    "settings_of",
    "show_setting",
    "strategy_names",
    "threads_within_limits",
    "train",
    "try_model",
    "typed_setting",
    "unknown_setting",
    "uploaded",
    "why_not_plain_classes",
    "workload_of",
]
