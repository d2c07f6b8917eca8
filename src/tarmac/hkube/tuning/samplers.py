"""Optuna's samplers, by HKube's names."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import optuna
from optuna.samplers import BaseSampler, GridSampler, PartialFixedSampler

from tarmac.distribution import require
from tarmac.studies import SeededSampler

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial, TrialState

    from tarmac.formats import HyperParam, TunerSpec


class _Grid(GridSampler):
    """Optuna's grid sampler, without its call that stops Optuna's own loop."""

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Do nothing: the specification's total counts a grid's combinations."""


def make_sampler(spec: TunerSpec) -> BaseSampler:
    """Return the sampler that a specification names.

    Its draws depend only on the seed and the existing trials. So tuning that resumes in another
    process draws the same parameters.

    Raises:
        MissingExtraError: The sampler is ``CmaEs``, and its package is not installed.
    """
    sampler, seed = spec.sampler, int(spec.sampler.seed)
    if sampler.name == "Grid":
        space = {param.name: _choice_names(param.choices or ()) for param in spec.parameters}
        # The seed shuffles the combinations, so all trials need the same seed.
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
        # Users cannot act on Optuna's warning that this sampler is experimental.
        warnings.simplefilter("ignore")
        return PartialFixedSampler(fixed, optuna.samplers.TPESampler(seed=seed))


def suggest(trial: Trial, spec: TunerSpec) -> dict[str, Any]:
    """Draw a trial's parameters, or return the parameters that were drawn before."""
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
    """Convert parameters that Optuna stores to the specification's values."""
    return {param.name: _value_of(param, params[param.name]) for param in spec.parameters}


def _value_of(param: HyperParam, stored: Any) -> Any:
    if param.suggest != "categorical":
        return stored
    choices = param.choices or []
    return choices[_choice_names(choices).index(stored)]


def _name_of(param: HyperParam, value: Any) -> Any:
    if param.suggest != "categorical":
        return value
    choices = param.choices or []
    return _choice_names(choices)[choices.index(value)]


def _choice_names(choices: Sequence[Any]) -> list[Any]:
    """Return a name for each choice that Optuna can store.

    Optuna stores strings, numbers, booleans and null, and compares them by ``==``, for which 1
    equals true. If choices have other types or are equal, their JSON stands for them.
    """
    are_plain = all(choice is None or isinstance(choice, (str, int, float)) for choice in choices)
    if are_plain and len({*choices}) == len(choices):
        return [*choices]
    return [json.dumps(choice, sort_keys=True) for choice in choices]
