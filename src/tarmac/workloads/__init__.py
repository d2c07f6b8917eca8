"""Workloads: a model, its data, a recipe, and the result it is expected to reach.

Each reference workload is one module of this package. A user's workload is found by path, as in
``tarmac train my_model.py:workload``, or through the entry point group ``tarmac.workloads``.
"""

from tarmac.workloads.augmentation import CropAndFlip, MirrorAndShift
from tarmac.workloads.base import (
    Augment,
    ByType,
    ParameterGroup,
    Preprocess,
    Recipe,
    Scale,
    TestViews,
    Workload,
)
from tarmac.workloads.ema import Ema
from tarmac.workloads.expectation import Expectation, Verdict
from tarmac.workloads.judging import judged_by
from tarmac.workloads.monitoring import monitored
from tarmac.workloads.objectives import (
    Classification,
    Direction,
    Metric,
    NextToken,
    Objective,
    Regression,
    SetMetric,
)
from tarmac.workloads.optimizers import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Muon,
    Nadam,
    Optimizer,
    RMSprop,
    TorchOptimizer,
)
from tarmac.workloads.registry import check_reference, find_workload, reference_of, workload_names
from tarmac.workloads.schedules import Constant, Cosine, Linear, OneCycle, Plateau, Schedule, Steps

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Augment",
    "ByType",
    "Classification",
    "Constant",
    "Cosine",
    "CropAndFlip",
    "Direction",
    "Ema",
    "Expectation",
    "Linear",
    "Metric",
    "MirrorAndShift",
    "Muon",
    "Nadam",
    "NextToken",
    "Objective",
    "OneCycle",
    "Optimizer",
    "ParameterGroup",
    "Plateau",
    "Preprocess",
    "RMSprop",
    "Recipe",
    "Regression",
    "Scale",
    "Schedule",
    "SetMetric",
    "Steps",
    "TestViews",
    "TorchOptimizer",
    "Verdict",
    "Workload",
    "check_reference",
    "find_workload",
    "judged_by",
    "monitored",
    "reference_of",
    "workload_names",
]
