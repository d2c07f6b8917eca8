"""Training: one workload on the devices that are here, into a run that can be resumed.

A `Plan` is what will be done, in values alone: ``planning`` makes it from what was asked.
``engine`` computes. ``processes`` are groups of processes, and know nothing of training.
``session`` takes an engine through a run, in this process or in several.
"""

from __future__ import annotations

from tarmac.training.engine.all_reduce import AllReduce as AllReduce
from tarmac.training.engine.columns import samples_of as samples_of
from tarmac.training.engine.model import bind_dataset as bind_dataset
from tarmac.training.engine.model import build_model as build_model
from tarmac.training.engine.optimizers import FlatOptimizer as FlatOptimizer
from tarmac.training.engine.parameters import Group as Group
from tarmac.training.engine.parameters import Parameters as Parameters
from tarmac.training.engine.prediction import call_model as call_model
from tarmac.training.engine.prediction import predict as predict
from tarmac.training.engine.recorder import GraphRecorder as GraphRecorder
from tarmac.training.engine.replica import Replica as Replica
from tarmac.training.engine.scoring import Score as Score
from tarmac.training.engine.step_runner import StepRunner as StepRunner
from tarmac.training.engine.step_runner import Steps as Steps
from tarmac.training.engine.strategies import find_strategy as find_strategy
from tarmac.training.engine.strategies import strategy_names as strategy_names
from tarmac.training.engine.strategy import Strategy as Strategy
from tarmac.training.engine.strategy import StrategySpec as StrategySpec
from tarmac.training.engine.team import Team as Team
from tarmac.training.initial import fit_weights as fit_weights
from tarmac.training.plan import Plan as Plan
from tarmac.training.plan import Precision as Precision
from tarmac.training.plan import Setting as Setting
from tarmac.training.planning.devices import ONE_OF_SEVERAL as ONE_OF_SEVERAL
from tarmac.training.planning.fused import why_not_plain_classes as why_not_plain_classes
from tarmac.training.planning.make import make_plan as make_plan
from tarmac.training.planning.options import Options as Options
from tarmac.training.planning.precision import choose_precision as choose_precision
from tarmac.training.planning.settings import apply_settings as apply_settings
from tarmac.training.planning.settings import optional_types as optional_types
from tarmac.training.planning.settings import settings_of as settings_of
from tarmac.training.planning.settings import show_setting as show_setting
from tarmac.training.planning.settings import typed_setting as typed_setting
from tarmac.training.planning.settings import unknown_setting as unknown_setting
from tarmac.training.planning.sharding import check_sharding as check_sharding
from tarmac.training.planning.trial import first_samples as first_samples
from tarmac.training.planning.trial import try_model as try_model
from tarmac.training.session.averaged import read_scored_weights as read_scored_weights
from tarmac.training.session.download import fetch_run as fetch_run
from tarmac.training.session.mistakes import look_at_mistakes as look_at_mistakes
from tarmac.training.session.modes import denormals_flushed as denormals_flushed
from tarmac.training.session.modes import threads_within_limits as threads_within_limits
from tarmac.training.session.origin import Checkpoint as Checkpoint
from tarmac.training.session.origin import find_weights as find_weights
from tarmac.training.session.patience import Patience as Patience
from tarmac.training.session.record import expectation_of as expectation_of
from tarmac.training.session.record import input_record as input_record
from tarmac.training.session.record import options_of as options_of
from tarmac.training.session.reporter import Reporter as Reporter
from tarmac.training.session.reporter import Silent as Silent
from tarmac.training.session.scoring import plan_to_score as plan_to_score
from tarmac.training.session.scoring import score_test as score_test
from tarmac.training.session.stop_request import StopRequest as StopRequest
from tarmac.training.session.upload import uploaded as uploaded
from tarmac.training.shares import order_of as order_of
from tarmac.training.verb import extend as extend
from tarmac.training.verb import resume as resume
from tarmac.training.verb import train as train
from tarmac.training.verb import workload_of as workload_of
