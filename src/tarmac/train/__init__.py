"""Training: one workload on one device, at the hardware's speed, into a run that can be resumed."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tarmac.train._environment import denormals_flushed
from tarmac.train._model import bind_dataset, build_model
from tarmac.train._optim import FlatOptimizer
from tarmac.train._options import Options
from tarmac.train._parameters import Group
from tarmac.train._patience import Patience
from tarmac.train._plan import Plan, make_plan
from tarmac.train._precision import Precision, choose_precision
from tarmac.train._reporter import Reporter, Silent
from tarmac.train._settings import Setting, apply_settings, settings_of
from tarmac.train._slices import order_of
from tarmac.train._train import resume, train

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


class _Verb(ModuleType):
    """Lets ``tarmac.train(...)`` train although importing this package binds that name to it."""

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        return train(*args, **kwargs)


sys.modules[__name__].__class__ = _Verb
