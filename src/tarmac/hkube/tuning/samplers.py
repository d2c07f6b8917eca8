"""Optuna's samplers, by the names that HKube gives them."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import optuna
from optuna.samplers import BaseSampler, GridSampler, PartialFixedSampler

from tarmac.distribution import require
from tarmac.studies import SeededSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial, TrialState

    from tarmac.formats import HyperParam, TunerSpec


class _Grid(GridSampler):
    """Optuna's own, but for the end of a loop that is not Optuna's."""

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Stop nothing: `num_trials_of` counts a grid's combinations."""


def make_sampler(spec: TunerSpec) -> BaseSampler:
    """Make what a specification names.

    What it draws is a function of the seed and the trials that there are, so that tuning that goes
    on in another process draws what the first would have drawn.

    Raises:
        MissingExtraError: ``CmaEs`` without the package that computes it.
    """
    sampler, seed = spec.sampler, int(spec.sampler.seed)
    if sampler.name == "Grid":
        space = {param.name: _choice_names(param.choices or ()) for param in spec.parameters}
        # Its combinations are shuffled by the seed, so each trial needs the same.
        return _Grid(space, seed=seed)
    if sampler.name == "CmaEs":
        require("cmaes", "spec.sampler CmaEs")
    makers: dict[str, Callable[[int], BaseSampler]] = {
        "Random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
        "TPE": lambda seed: optuna.samplers.TPESampler(seed=seed),
        "CmaEs": lambda seed: optuna.samplers.CmaEsSampler(
            seed=seed, warn_independent_sampling=False
        ),
        "PartialFixed": lambda seed: _partial_fixed(spec, seed),
    }
    return SeededSampler(makers[sampler.name], seed)


def _partial_fixed(spec: TunerSpec, seed: int) -> BaseSampler:
    by_name = {param.name: param for param in spec.parameters}
    fixed = {
        name: _name_of(by_name[name], value)
        for name, value in (spec.sampler.fixed_values or {}).items()
    }
    with warnings.catch_warnings():
        # That Optuna calls it experimental is nothing that a user can change.
        warnings.simplefilter("ignore")
        return PartialFixedSampler(fixed, optuna.samplers.TPESampler(seed=seed))


def suggest(trial: Trial, spec: TunerSpec) -> dict[str, Any]:
    """Have a trial's parameters drawn, or read again what was drawn before."""
    for param in spec.parameters:
        low, high = param.low or 0.0, param.high or 0.0
        match param.suggest:
            case "uniform":
                trial.suggest_float(param.name, low, high)
            case "loguniform":
                trial.suggest_float(param.name, low, high, log=True)
            case "discrete_uniform":
                trial.suggest_float(param.name, low, high, step=param.q)
            case "int":
                trial.suggest_int(param.name, int(low), int(high))
            case "categorical":
                trial.suggest_categorical(param.name, _choice_names(param.choices or ()))
    return values_of(trial.params, spec)


def values_of(params: dict[str, Any], spec: TunerSpec) -> dict[str, Any]:
    """Return parameters as the specification has them, from what Optuna stores."""
    return {param.name: _value_of(param, params[param.name]) for param in spec.parameters}


def _value_of(one: HyperParam, stored: Any) -> Any:
    if one.suggest != "categorical":
        return stored
    choices = one.choices or []
    return choices[_choice_names(choices).index(stored)]


def _name_of(one: HyperParam, value: Any) -> Any:
    if one.suggest != "categorical":
        return value
    choices = one.choices or []
    return _choice_names(choices)[choices.index(value)]


def _choice_names(choices: Sequence[Any]) -> list[Any]:
    """Return what Optuna is told in place of choices, one for each.

    It keeps texts, numbers, booleans and null, and tells them apart by ``==``, by which 1 is true.
    Where that does not do, each stands as its JSON.
    """
    are_plain = all(choice is None or isinstance(choice, (str, int, float)) for choice in choices)
    if are_plain and len({*choices}) == len(choices):
        return [*choices]
    return [json.dumps(choice, sort_keys=True) for choice in choices]
