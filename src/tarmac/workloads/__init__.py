"""Workloads: a model, its data, a recipe, and the result it is expected to reach.

Each reference workload is one file beside this one. A user's own is found by path, as in
``tarmac train my_model.py:workload``, or through the entry point group ``tarmac.workloads``.
"""

from tarmac.workloads.augmentation import CropAndFlip as CropAndFlip
from tarmac.workloads.augmentation import MirrorAndShift as MirrorAndShift
from tarmac.workloads.base import Augment as Augment
from tarmac.workloads.base import ByType as ByType
from tarmac.workloads.base import ParameterGroup as ParameterGroup
from tarmac.workloads.base import Preprocess as Preprocess
from tarmac.workloads.base import Recipe as Recipe
from tarmac.workloads.base import Scale as Scale
from tarmac.workloads.base import TestViews as TestViews
from tarmac.workloads.base import Workload as Workload
from tarmac.workloads.ema import Ema as Ema
from tarmac.workloads.expectation import Expectation as Expectation
from tarmac.workloads.expectation import Verdict as Verdict
from tarmac.workloads.judging import judged_by as judged_by
from tarmac.workloads.monitoring import monitored as monitored
from tarmac.workloads.objectives import Classification as Classification
from tarmac.workloads.objectives import Direction as Direction
from tarmac.workloads.objectives import Metric as Metric
from tarmac.workloads.objectives import NextToken as NextToken
from tarmac.workloads.objectives import Objective as Objective
from tarmac.workloads.objectives import Regression as Regression
from tarmac.workloads.objectives import SetMetric as SetMetric
from tarmac.workloads.optimizers import SGD as SGD
from tarmac.workloads.optimizers import Adadelta as Adadelta
from tarmac.workloads.optimizers import Adagrad as Adagrad
from tarmac.workloads.optimizers import Adam as Adam
from tarmac.workloads.optimizers import Adamax as Adamax
from tarmac.workloads.optimizers import AdamW as AdamW
from tarmac.workloads.optimizers import Muon as Muon
from tarmac.workloads.optimizers import Nadam as Nadam
from tarmac.workloads.optimizers import Optimizer as Optimizer
from tarmac.workloads.optimizers import RMSprop as RMSprop
from tarmac.workloads.optimizers import TorchOptimizer as TorchOptimizer
from tarmac.workloads.registry import check_reference as check_reference
from tarmac.workloads.registry import find_workload as find_workload
from tarmac.workloads.registry import reference_of as reference_of
from tarmac.workloads.registry import workload_names as workload_names
from tarmac.workloads.schedules import Constant as Constant
from tarmac.workloads.schedules import Cosine as Cosine
from tarmac.workloads.schedules import Linear as Linear
from tarmac.workloads.schedules import OneCycle as OneCycle
from tarmac.workloads.schedules import Plateau as Plateau
from tarmac.workloads.schedules import Schedule as Schedule
from tarmac.workloads.schedules import Steps as Steps
