"""Search: find good hyperparameters, many networks at once, without losing a trial.

Example:
    >>> import tarmac
    >>> study = tarmac.search("digits-mlp", space={"hidden": [16, 32, 64]}, generations=3)
    >>> study.best.settings, study.best.test_accuracy
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tarmac.distribution import explained_imports
from tarmac.studies.evaluation.interface import (
    Candidate,
    EpochReporter,
    Evaluator,
    Progress,
    Result,
)

if TYPE_CHECKING:
    from tarmac.studies.cluster.session import search_on
    from tarmac.studies.cluster.time_left import time_left
    from tarmac.studies.cluster.workers import AGAIN, STORAGE_VARIABLE, Workers
    from tarmac.studies.errors import FieldError
    from tarmac.studies.ledger import Ledger
    from tarmac.studies.methods.evolution import EvolutionSampler
    from tarmac.studies.methods.interface import Child, GenerationSampler, Method, MethodOptions
    from tarmac.studies.methods.pruning import Pruner, PruningRule, pruning_rule_names
    from tarmac.studies.methods.registry import find_method, method_names
    from tarmac.studies.methods.samplers import SeededSampler, resumable
    from tarmac.studies.notation import Range, parse_set
    from tarmac.studies.opening import open_study
    from tarmac.studies.preview import Preview, preview_search
    from tarmac.studies.reporter import Reporter, Silent
    from tarmac.studies.request import Request, read_space, study_names
    from tarmac.studies.space import Choices, Numbers, Space
    from tarmac.studies.study.catalogue import find_study, list_studies
    from tarmac.studies.study.glance import glance_search
    from tarmac.studies.study.kind import SEARCH
    from tarmac.studies.study.record import Winner
    from tarmac.studies.study.study import Study
    from tarmac.studies.study.writer import StudyWriter
    from tarmac.studies.terms import Terms
    from tarmac.studies.tracking import check_trackers, tracked
    from tarmac.studies.verb import search, work_as_one, work_on
    from tarmac.studies.views.dashboard import serve_dashboard
    from tarmac.studies.views.export import export
    from tarmac.studies.views.survey import Network, SpaceAxis, Step, Survey, survey
    from tarmac.studies.views.totals import Group, Totals, by_generation, summarize
    from tarmac.studies.winner import choose_winner, front_numbers, train_caution, train_line

__all__ = [
    "AGAIN",
    "SEARCH",
    "STORAGE_VARIABLE",
    "Candidate",
    "Child",
    "Choices",
    "EpochReporter",
    "Evaluator",
    "EvolutionSampler",
    "FieldError",
    "GenerationSampler",
    "Group",
    "Ledger",
    "Method",
    "MethodOptions",
    "Network",
    "Numbers",
    "Preview",
    "Progress",
    "Pruner",
    "PruningRule",
    "Range",
    "Reporter",
    "Request",
    "Result",
    "SeededSampler",
    "Silent",
    "Space",
    "SpaceAxis",
    "Step",
    "Study",
    "StudyWriter",
    "Survey",
    "Terms",
    "Totals",
    "Winner",
    "Workers",
    "by_generation",
    "check_trackers",
    "choose_winner",
    "export",
    "find_method",
    "find_study",
    "front_numbers",
    "glance_search",
    "list_studies",
    "method_names",
    "open_study",
    "parse_set",
    "preview_search",
    "pruning_rule_names",
    "read_space",
    "resumable",
    "search",
    "search_on",
    "serve_dashboard",
    "study_names",
    "summarize",
    "survey",
    "time_left",
    "tracked",
    "train_caution",
    "train_line",
    "work_as_one",
    "work_on",
]

# Imported when first used: Optuna and PyTorch take seconds.
_MODULES = {
    "AGAIN": "cluster.workers",
    "STORAGE_VARIABLE": "cluster.workers",
    "Child": "methods.interface",
    "Choices": "space",
    "EvolutionSampler": "methods.evolution",
    "FieldError": "errors",
    "GenerationSampler": "methods.interface",
    "Group": "views.totals",
    "Ledger": "ledger",
    "Method": "methods.interface",
    "MethodOptions": "methods.interface",
    "Network": "views.survey",
    "Numbers": "space",
    "Preview": "preview",
    "Pruner": "methods.pruning",
    "PruningRule": "methods.pruning",
    "Range": "notation",
    "Reporter": "reporter",
    "Request": "request",
    "SeededSampler": "methods.samplers",
    "Silent": "reporter",
    "Space": "space",
    "SpaceAxis": "views.survey",
    "Step": "views.survey",
    "Study": "study.study",
    "StudyWriter": "study.writer",
    "Survey": "views.survey",
    "Terms": "terms",
    "Totals": "views.totals",
    "Winner": "study.record",
    "Workers": "cluster.workers",
    "SEARCH": "study.kind",
    "by_generation": "views.totals",
    "check_trackers": "tracking",
    "choose_winner": "winner",
    "export": "views.export",
    "find_method": "methods.registry",
    "find_study": "study.catalogue",
    "front_numbers": "winner",
    "glance_search": "study.glance",
    "list_studies": "study.catalogue",
    "method_names": "methods.registry",
    "open_study": "opening",
    "parse_set": "notation",
    "preview_search": "preview",
    "pruning_rule_names": "methods.pruning",
    "read_space": "request",
    "resumable": "methods.samplers",
    "search": "verb",
    "search_on": "cluster.session",
    "serve_dashboard": "views.dashboard",
    "study_names": "request",
    "summarize": "views.totals",
    "survey": "views.survey",
    "time_left": "cluster.time_left",
    "tracked": "tracking",
    "train_caution": "winner",
    "train_line": "winner",
    "work_as_one": "verb",
    "work_on": "verb",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'tarmac.studies' has no attribute {name!r}")
    with explained_imports("search"):
        return getattr(importlib.import_module(f"tarmac.studies.{_MODULES[name]}"), name)
