"""The pruning rules, which stop losers early: successive halving, and the median rule.

A package provides another rule by an entry point of the group ``tarmac.pruning_rules`` whose value
is a `PruningRule`.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping
from typing import Protocol

from tarmac.errors import unknown_name
from tarmac.extensions import load_provided, names_with_provided
from tarmac.studies.errors import FieldError
from tarmac.studies.ledger import GENERATION, Ledger

_GROUP = "tarmac.pruning_rules"

# Value of `prune` for no pruning.
_NONE = "none"


class Pruner(Protocol):
    """A rule that decides after each epoch whether a network goes on."""

    def is_loser(self, ledger: Ledger, number: int, curve: Mapping[int, float]) -> bool:
        """Return whether a trial stops after this epoch.

        Args:
            ledger: Ledger of the study's trials.
            number: Number of the trial to judge.
            curve: Metric values of the trial so far, by epoch.
        """
        ...


class Halving:
    """Successive halving (Jamieson and Talwalkar, 2016), asynchronous as in ASHA (Li et al., 2020).

    At the rungs (epochs 1, 3, 9, ...) the best third goes on, of the networks of the same
    generation that have reached the rung. After every epoch a network is judged at all rungs that
    it has passed. So the first network at a rung stops too once enough better networks reach it.

    Args:
        sign: 1 if more is better, -1 if less is better. Default 1.
        factor: One of ``factor`` networks goes on. Default 3.
    """

    def __init__(self, sign: float = 1.0, factor: int = 3) -> None:
        self._sign = sign
        self._factor = factor

    def is_loser(self, ledger: Ledger, number: int, curve: Mapping[int, float]) -> bool:
        """Return whether a trial is outside the best third at a rung that it has passed."""
        generation = ledger.trials[number].system_attrs.get(GENERATION)
        mates = ledger.trials if generation is None else ledger.of_generation(generation)
        rung = 1
        while rung <= max(curve):
            others = [
                self._sign * mate.intermediate_values[rung]
                for mate in mates
                if mate.number != number and rung in mate.intermediate_values
            ]
            better = sum(value > self._sign * curve[rung] for value in others)
            came = len(others) + 1
            if came >= self._factor and better >= math.ceil(came / self._factor):
                return True
            rung *= self._factor
        return False


class Median:
    """The median rule of Golovin et al. (Google Vizier, 2017).

    A network stops if its best value so far is below the median of other networks at this epoch.

    Args:
        sign: 1 if more is better, -1 if less is better. Default 1.
        least: Minimum number of other networks. Default 5.
    """

    def __init__(self, sign: float = 1.0, least: int = 5) -> None:
        self._sign = sign
        self._least = least

    def is_loser(self, ledger: Ledger, number: int, curve: Mapping[int, float]) -> bool:
        """Return whether a trial is below the median."""
        epoch = max(curve)
        others = [
            self._sign * trial.intermediate_values[epoch]
            for trial in ledger.trials
            if trial.number != number and epoch in trial.intermediate_values
        ]
        best = max(self._sign * value for value in curve.values())
        return len(others) >= self._least and best < statistics.median(others)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PruningRule:
    """A named rule that stops losers early.

    Attributes:
        name: Name of the rule for ``prune`` of a request.
        summary: Description in a few words.
        make_pruner: Returns a study's pruner; the argument is 1 if more is better, else -1.
    """

    name: str
    summary: str
    make_pruner: Callable[[float], Pruner]


PRUNING_RULES = (
    PruningRule(
        name="halving",
        summary="the best third continues at epochs 1, 3, 9, ...",
        make_pruner=Halving,
    ),
    PruningRule(
        name="median",
        summary="stop trials below the median of the others",
        make_pruner=Median,
    ),
)
_BUILT_IN = {rule.name: rule for rule in PRUNING_RULES}


def pruning_rule_names() -> tuple[str, ...]:
    """Return ``none``, the names of Tarmac's rules, then those of installed packages."""
    return names_with_provided(_GROUP, (_NONE, *_BUILT_IN))


def find_rule(name: str) -> PruningRule | None:
    """Find a rule by name; None for ``none``.

    Raises:
        FieldError: There is no rule of that name.
        TarmacError: See `load_provided`.
    """
    if name == _NONE:
        return None
    rule = _BUILT_IN.get(name) or load_provided(_GROUP, "pruning rule", name, PruningRule)
    if rule is None:
        summaries = dict.fromkeys(pruning_rule_names(), "")
        summaries |= {key: built_in.summary for key, built_in in _BUILT_IN.items()}
        unknown = unknown_name("prune", name, summaries)
        raise FieldError(("prune",), unknown.message, hint=unknown.hint)
    return rule
