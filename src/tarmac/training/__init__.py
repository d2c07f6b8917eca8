"""Training: one workload on the devices that are here, into a run that can be resumed.

A `Plan` is what will be done, in values alone: ``planning`` makes it from what was asked.
``engine`` computes. ``processes`` are groups of processes, and know nothing of training.
``session`` takes an engine through a run, in this process or in several.
"""

from __future__ import annotations

from tarmac.training.engine.model import bind_dataset, build_model
from tarmac.training.engine.optimizers import FlatOptimizer
from tarmac.training.engine.parameters import Group
from tarmac.training.engine.replica import Score
from tarmac.training.plan import Plan, Precision, Setting
from tarmac.training.planning.make import make_plan
from tarmac.training.planning.options import Options
from tarmac.training.planning.precision import choose_precision
from tarmac.training.planning.settings import apply_settings, settings_of
from tarmac.training.session.modes import denormals_flushed
from tarmac.training.session.patience import Patience
from tarmac.training.session.reporter import Reporter, Silent
from tarmac.training.session.stop_request import StopRequest
from tarmac.training.shares import order_of
from tarmac.training.verb import resume, train

__all__ = [
    "FlatOptimizer",
    "Group",
    "Options",
    "Patience",
    "Plan",
    "Precision",
    "Reporter",
    "Score",
    "Setting",
    "Silent",
    "StopRequest",
    "apply_settings",
    "bind_dataset",
    "build_model",
    "choose_precision",
    "denormals_flushed",
    "make_plan",
    "order_of",
    "resume",
    "settings_of",
    "train",
]
