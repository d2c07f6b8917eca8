"""Workloads: a model, its data, a recipe, and the result it is expected to reach.

Each reference workload is one file beside this one. A user's own is found by path, as in
``tarmac train my_model.py:workload``, or through the entry point group ``tarmac.workloads``.
"""

from tarmac.workloads.augmentation import CropAndFlip, MirrorAndShift
from tarmac.workloads.base import (
    Augment,
    Expectation,
    ParameterGroup,
    Preprocess,
    Recipe,
    Scale,
    TestViews,
    Verdict,
    Workload,
)
from tarmac.workloads.optimizers import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    Muon,
    Nadam,
    Optimizer,
    RMSprop,
)
from tarmac.workloads.registry import find_workload, reference_of, workload_names
from tarmac.workloads.schedules import Constant, Linear, OneCycle, Schedule

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "Adamax",
    "Augment",
    "Constant",
    "CropAndFlip",
    "Expectation",
    "Linear",
    "MirrorAndShift",
    "Muon",
    "Nadam",
    "OneCycle",
    "Optimizer",
    "ParameterGroup",
    "Preprocess",
    "RMSprop",
    "Recipe",
    "Scale",
    "Schedule",
    "TestViews",
    "Verdict",
    "Workload",
    "find_workload",
    "reference_of",
    "workload_names",
]
