"""Training: one workload on the devices that are here, into a run that can be resumed.

A `Plan` is what will be done, in values alone: ``planning`` makes it from what was asked.
``engine`` computes. ``processes`` are groups of processes, and know nothing of training.
``session`` takes an engine through a run, in this process or in several.
"""

from __future__ import annotations

from tarmac.training.engine.all_reduce import AllReduce
from tarmac.training.engine.model import bind_dataset, build_model
from tarmac.training.engine.optimizers import FlatOptimizer
from tarmac.training.engine.parameters import Group, Parameters
from tarmac.training.engine.recorder import GraphRecorder
from tarmac.training.engine.replica import Replica, Score
from tarmac.training.engine.step_runner import StepRunner, Steps
from tarmac.training.engine.strategies import find_strategy, strategy_names
from tarmac.training.engine.strategy import Strategy, StrategySpec
from tarmac.training.engine.team import Team
from tarmac.training.plan import Plan, Precision, Setting
from tarmac.training.planning.make import make_plan
from tarmac.training.planning.options import Options
from tarmac.training.planning.precision import choose_precision
from tarmac.training.planning.settings import apply_settings, settings_of
from tarmac.training.session.mistakes import look_at_mistakes
from tarmac.training.session.modes import denormals_flushed
from tarmac.training.session.patience import Patience
from tarmac.training.session.reporter import Reporter, Silent
from tarmac.training.session.stop_request import StopRequest
from tarmac.training.session.upload import uploaded
from tarmac.training.shares import order_of
from tarmac.training.verb import resume, train

__all__ = [
    "AllReduce",
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
    "choose_precision",
    "denormals_flushed",
    "find_strategy",
    "look_at_mistakes",
    "make_plan",
    "order_of",
    "resume",
    "settings_of",
    "strategy_names",
    "train",
    "uploaded",
]
