"""Training: one workload on one device, at the hardware's speed, into a run that can be resumed."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tarmac.train._plan import Options, Plan, make_plan
from tarmac.train._reporter import Reporter, Silent
from tarmac.train._settings import Setting, settings_of
from tarmac.train._train import resume, train

__all__ = [
    "Options",
    "Plan",
    "Reporter",
    "Setting",
    "Silent",
    "make_plan",
    "resume",
    "settings_of",
    "train",
]


class _Verb(ModuleType):
    """Lets ``tarmac.train(...)`` train although importing this package binds that name to it."""

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        return train(*args, **kwargs)


sys.modules[__name__].__class__ = _Verb
