"""Training: one workload on one device, at the hardware's speed, into a run that can be resumed."""

from __future__ import annotations

from tarmac.training.engine.optimizers import FlatOptimizer
from tarmac.training.engine.parameters import Group
from tarmac.training.plan import Plan, make_plan
from tarmac.training.planning.model import bind_dataset, build_model
from tarmac.training.planning.options import Options
from tarmac.training.planning.precision import Precision, choose_precision
from tarmac.training.planning.settings import Setting, apply_settings, settings_of
from tarmac.training.session.modes import denormals_flushed
from tarmac.training.session.patience import Patience
from tarmac.training.session.reporter import Reporter, Silent
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
    "Setting",
    "Silent",
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
