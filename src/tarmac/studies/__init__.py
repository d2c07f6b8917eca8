"""Search: find good hyperparameters, many networks at once, without losing a trial.

Example:
    >>> import tarmac
    >>> study = tarmac.search("digits-mlp", space={"hidden": [16, 32, 64]}, generations=3)
    >>> study.best.settings, study.best.test_accuracy
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

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
    from tarmac.studies.study.record import Winner
    from tarmac.studies.study.study import Study, find_study, list_studies
    from tarmac.studies.verb import search

__all__ = [
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
_PLACES = {
    "Choices": "_space",
    "EvolutionSampler": "_evolution",
    "Numbers": "_space",
    "Reporter": "_observer",
    "Range": "_parameters",
    "Request": "_request",
    "Silent": "_observer",
    "Space": "_space",
    "Study": "_study",
    "Winner": "_record",
    "find_study": "_study",
    "list_studies": "_study",
    "search": "_search",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'tarmac.studies' has no attribute {name!r}")
    with explained_imports("search"):
        return getattr(importlib.import_module(f"tarmac.studies.{_PLACES[name]}"), name)


class _Verb(ModuleType):
    """Lets ``tarmac.search(...)`` search although importing this package binds that name to it."""

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        with explained_imports("search"):
            from tarmac.studies.verb import search  # noqa: PLC0415 - loads Optuna and PyTorch

        return search(*args, **kwargs)


sys.modules[__name__].__class__ = _Verb
