"""Optuna's own samplers, seeded so that a search that goes on draws what it would have drawn."""

from __future__ import annotations

import hashlib
import warnings
from typing import TYPE_CHECKING, Any

import optuna
from optuna.samplers import BaseSampler

from tarmac.distribution import require
from tarmac.studies.notation import FieldError
from tarmac.studies.space import Choices

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial, TrialState

    from tarmac.studies.request import Request
    from tarmac.studies.space import Space

__all__ = ["SeededSampler", "check_method", "make_sampler"]


class SeededSampler(BaseSampler):
    """A sampler that is made anew for each trial, with a seed of its own.

    Optuna's samplers begin to draw from their seed again in each process, so a study that goes on
    would repeat its first draws; what else they know they read from the study.

    Args:
        make: Makes the sampler of a seed.
        seed: Of the search.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make = make
        self._seed = seed
        self._sampler = make(seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Make the trial's own sampler."""
        digest = hashlib.sha256(f"{self._seed}/{trial.number}".encode()).digest()
        self._sampler = self._make(int.from_bytes(digest[:4], "big") % 2**31)
        self._sampler.before_trial(study, trial)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Ask the trial's sampler."""
        return self._sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Ask the trial's sampler."""
        return self._sampler.sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Ask the trial's sampler."""
        return self._sampler.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Tell the sampler, except brute force, which would end a loop that is not Optuna's."""
        if not isinstance(self._sampler, optuna.samplers.BruteForceSampler):
            self._sampler.after_trial(study, trial, state, values)


def check_method(request: Request, space: Space) -> None:
    """Raise a RequestError where a method cannot search a space."""
    size = space.size
    if request.method == "brute" and size is None:
        endless = next(name for name, one in space.parameters.items() if one.size == float("inf"))
        raise FieldError(
            ("method",),
            f"method is brute, but {endless} has infinitely many values",
            hint=f"Give it a step: --set {endless}=LOW..HIGH:STEP, or name its values.",
        )
    if request.method != "cmaes":
        return
    require("cmaes")
    if all(isinstance(one, Choices) for one in space.parameters.values()):
        raise FieldError(
            ("method",),
            "method is cmaes, which searches over numbers, but every parameter has choices",
            hint="Use --method evolve or tpe, or ranges: --set KEY=LOW..HIGH",
        )
    if len(request.objective) > 1:
        raise FieldError(
            ("method",),
            f"method is cmaes, which knows one objective, not {len(request.objective)}",
            hint="Use --method evolve, nsga2 or tpe.",
        )


def make_sampler(request: Request, space: Space) -> SeededSampler:
    """Make the sampler of a method other than ``evolve``."""

    def make(seed: int) -> BaseSampler:
        with warnings.catch_warnings():
            # What Optuna calls experimental is decided on here once, not by each user.
            warnings.simplefilter("ignore")
            match request.method:
                case "brute":
                    return optuna.samplers.BruteForceSampler(seed=seed)
                case "tpe":
                    return optuna.samplers.TPESampler(
                        seed=seed,
                        multivariate=True,
                        group=space.is_conditional,
                        constant_liar=True,
                    )
                case "cmaes":
                    return optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
                case "nsga2":
                    return optuna.samplers.NSGAIISampler(
                        seed=seed, population_size=request.population
                    )
                case _:
                    return optuna.samplers.RandomSampler(seed=seed)

    return SeededSampler(make, request.seed)
