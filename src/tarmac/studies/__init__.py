"""Search: find good hyperparameters, many networks at once, without losing a trial.

Example:
    >>> import tarmac
    >>> study = tarmac.search("digits-mlp", space={"hidden": [16, 32, 64]}, generations=3)
    >>> study.best.settings, study.best.test_accuracy
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tarmac.distribution import explained_imports
from tarmac.lazy import lazy_names
from tarmac.studies.evaluation.interface import Candidate as Candidate
from tarmac.studies.evaluation.interface import EpochReporter as EpochReporter
from tarmac.studies.evaluation.interface import Evaluator as Evaluator
from tarmac.studies.evaluation.interface import Progress as Progress
from tarmac.studies.evaluation.interface import Result as Result

if TYPE_CHECKING:
    from tarmac.studies.cluster.session import search_on as search_on
    from tarmac.studies.cluster.time_left import time_left as time_left
    from tarmac.studies.cluster.workers import AGAIN as AGAIN
    from tarmac.studies.cluster.workers import STORAGE_VARIABLE as STORAGE_VARIABLE
    from tarmac.studies.cluster.workers import Workers as Workers
    from tarmac.studies.errors import FieldError as FieldError
    from tarmac.studies.ledger import Ledger as Ledger
    from tarmac.studies.methods.evolution import EvolutionSampler as EvolutionSampler
    from tarmac.studies.methods.interface import Child as Child
    from tarmac.studies.methods.interface import GenerationSampler as GenerationSampler
    from tarmac.studies.methods.interface import Method as Method
    from tarmac.studies.methods.interface import MethodOptions as MethodOptions
    from tarmac.studies.methods.pruning import Pruner as Pruner
    from tarmac.studies.methods.pruning import PruningRule as PruningRule
    from tarmac.studies.methods.pruning import pruning_rule_names as pruning_rule_names
    from tarmac.studies.methods.registry import find_method as find_method
    from tarmac.studies.methods.registry import method_names as method_names
    from tarmac.studies.methods.samplers import SeededSampler as SeededSampler
    from tarmac.studies.methods.samplers import resumable as resumable
    from tarmac.studies.notation import Range as Range
    from tarmac.studies.notation import parse_set as parse_set
    from tarmac.studies.opening import open_study as open_study
    from tarmac.studies.preview import Preview as Preview
    from tarmac.studies.preview import preview_search as preview_search
    from tarmac.studies.reporter import Reporter as Reporter
    from tarmac.studies.reporter import Silent as Silent
    from tarmac.studies.request import Request as Request
    from tarmac.studies.request import read_space as read_space
    from tarmac.studies.request import study_names as study_names
    from tarmac.studies.space import Choices as Choices
    from tarmac.studies.space import Numbers as Numbers
    from tarmac.studies.space import Space as Space
    from tarmac.studies.study.catalogue import find_study as find_study
    from tarmac.studies.study.catalogue import list_studies as list_studies
    from tarmac.studies.study.glance import glance_search as glance_search
    from tarmac.studies.study.kind import SEARCH as SEARCH
    from tarmac.studies.study.record import Winner as Winner
    from tarmac.studies.study.study import Study as Study
    from tarmac.studies.study.writer import StudyWriter as StudyWriter
    from tarmac.studies.terms import Terms as Terms
    from tarmac.studies.tracking import check_trackers as check_trackers
    from tarmac.studies.tracking import tracked as tracked
    from tarmac.studies.verb import run_worker as run_worker
    from tarmac.studies.verb import search as search
    from tarmac.studies.verb import work_on as work_on
    from tarmac.studies.views.dashboard import serve_dashboard as serve_dashboard
    from tarmac.studies.views.export import export as export
    from tarmac.studies.views.survey import Network as Network
    from tarmac.studies.views.survey import SpaceAxis as SpaceAxis
    from tarmac.studies.views.survey import Step as Step
    from tarmac.studies.views.survey import Survey as Survey
    from tarmac.studies.views.survey import survey as survey
    from tarmac.studies.views.totals import Group as Group
    from tarmac.studies.views.totals import Totals as Totals
    from tarmac.studies.views.totals import by_generation as by_generation
    from tarmac.studies.views.totals import summarize as summarize
    from tarmac.studies.winner import choose_winner as choose_winner
    from tarmac.studies.winner import front_numbers as front_numbers
    from tarmac.studies.winner import train_caution as train_caution
    from tarmac.studies.winner import train_line as train_line
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, partial(explained_imports, "search"))
