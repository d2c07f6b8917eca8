"""Stops losers early: successive halving within a generation, or below the median.

A package provides another rule by an entry point of the group ``tarmac.pruning_rules`` whose value
is a `PruningRule`.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import TYPE_CHECKING, Protocol

from tarmac.errors import unknown_name
from tarmac.extensions import load_provided, names_with_provided
from tarmac.studies.errors import FieldError
from tarmac.studies.ledger import GENERATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tarmac.studies.ledger import Ledger

_GROUP = "tarmac.pruning_rules"

# What `prune` is where nothing is stopped.
_NONE = "none"


class Pruner(Protocol):
    """Decides after an epoch whether a network goes on."""

    def is_loser(self, ledger: Ledger, number: int, curve: Mapping[int, float]) -> bool:
        """Return whether a trial stops here.

        Args:
            ledger: Ledger of the study's trials.
            number: Number of the trial to judge.
            curve: Its values so far, by epoch; more is better.
        """
        ...


class Halving:
    """Successive halving (Jamieson and Talwalkar, 2016), asynchronous as in ASHA (Li et al., 2020).

    At epochs 1, 3, 9, ... the best third goes on, of those of the same generation that have come so
    far. A network is judged at every epoch by the rungs that it has passed, so that one that came
    to a rung first stops too once enough better ones have come there.

    Args:
        sign: 1 where more is better, -1 where less is.
        factor: One in so many goes on.
    """

    def __init__(self, sign: float = 1.0, factor: int = 3) -> None:
        self._sign = sign
        self._factor = factor

    def is_loser(self, ledger: Ledger, number: int, curve: Mapping[int, float]) -> bool:
        """Return whether a trial is not in the best third at a rung that it has passed."""
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
    """Stops a network whose best value so far is below the median of others at this epoch.

    That is Golovin et al.'s rule (Google Vizier, 2017).

    Args:
        sign: 1 where more is better, -1 where less is.
        least: How many others there must be.
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
    """A rule by which losers stop early.

    Attributes:
        name: What ``prune`` of a request names it by.
        summary: What it does, in a few words.
        make_pruner: Makes a study's pruner; its argument is 1 where more is better, -1 where less.
    """

    name: str
    summary: str
    make_pruner: Callable[[float], Pruner]


PRUNING_RULES = (
    PruningRule(
        name="halving",
        summary="the best third goes on at epochs 1, 3, 9, ...",
        make_pruner=Halving,
    ),
    PruningRule(
        name="median",
        summary="stop what is below the median of others",
        make_pruner=Median,
    ),
)
_BUILT_IN = {rule.name: rule for rule in PRUNING_RULES}


def pruning_rule_names() -> tuple[str, ...]:
    """Return ``none``, the names of Tarmac's rules, then of those that packages provide."""
    return names_with_provided(_GROUP, (_NONE, *_BUILT_IN))


def find_rule(name: str) -> PruningRule | None:
    """Find a rule by name; None for ``none``.

    Raises:
        FieldError: There is none of that name.
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
