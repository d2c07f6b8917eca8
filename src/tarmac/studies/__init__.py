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
    from tarmac.studies.methods.evolution import EvolutionSampler
    from tarmac.studies.methods.space import Choices, Numbers, Space
    from tarmac.studies.methods.written import Range
    from tarmac.studies.observer import Reporter, Silent
    from tarmac.studies.request import Request
    from tarmac.studies.study.kind import SEARCH
    from tarmac.studies.study.record import Winner
    from tarmac.studies.study.study import Study, find_study, list_studies
    from tarmac.studies.verb import search

__all__ = [
    "SEARCH",
    "Candidate",
    "Choices",
    "EpochReporter",
    "Evaluator",
    "EvolutionSampler",
    "Numbers",
    "Progress",
    "Range",
    "Reporter",
    "Request",
    "Result",
    "Silent",
    "Space",
    "Study",
    "Winner",
    "find_study",
    "list_studies",
    "search",
]

# Imported when first used: Optuna and PyTorch take seconds.
_MODULES = {
    "Choices": "methods.space",
    "EvolutionSampler": "methods.evolution",
    "Numbers": "methods.space",
    "Reporter": "observer",
    "Range": "methods.written",
    "Request": "request",
    "Silent": "observer",
    "Space": "methods.space",
    "Study": "study.study",
    "Winner": "study.record",
    "SEARCH": "study.kind",
    "find_study": "study.study",
    "list_studies": "study.study",
    "search": "verb",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'tarmac.studies' has no attribute {name!r}")
    with explained_imports("search"):
        return getattr(importlib.import_module(f"tarmac.studies.{_MODULES[name]}"), name)
