"""Optuna's samplers, seeded so that a resumed search draws the same values."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import optuna
from optuna.samplers import BaseSampler

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial, TrialState

    from tarmac.studies.ledger import Ledger
    from tarmac.studies.methods.interface import MethodOptions
    from tarmac.studies.space import Space


class SeededSampler(BaseSampler):
    """A sampler that makes a new Optuna sampler for each trial, with the trial's own seed.

    Optuna's samplers restart from their seed in each process, so a resumed study would repeat its
    first draws. They read all other state from the study.

    Args:
        make: Returns the sampler of a seed.
        seed: Seed of the search, from which each trial's seed is derived.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make = make
        self._seed = seed
        self._sampler = make(seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Create the trial's own sampler."""
        digest = hashlib.sha256(f"{self._seed}/{trial.number}".encode()).digest()
        self._sampler = self._make(int.from_bytes(digest[:4], "big") % 2**31)
        self._sampler.before_trial(study, trial)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Delegate to the trial's sampler."""
        return self._sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Delegate to the trial's sampler."""
        return self._sampler.sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Delegate to the trial's sampler."""
        return self._sampler.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Delegate to the sampler, except brute force: its `study.stop` needs Optuna's own loop."""
        if not isinstance(self._sampler, optuna.samplers.BruteForceSampler):
            self._sampler.after_trial(study, trial, state, values)


def resumable(
    make: Callable[[int, Space, MethodOptions], BaseSampler],
) -> Callable[[Space, MethodOptions, Ledger], SeededSampler]:
    """Wrap a factory of Optuna samplers as a method's ``make_sampler``.

    Args:
        make: Returns a sampler for a seed, a space and options.
    """

    def make_sampler(
        space: Space,
        options: MethodOptions,
        ledger: Ledger,  # noqa: ARG001 - Optuna's samplers read trials themselves
    ) -> SeededSampler:
        def seeded(seed: int) -> BaseSampler:
            with warnings.catch_warnings():
                # Optuna's warnings about experimental samplers concern us, not our users.
                warnings.simplefilter("ignore")
                return make(seed, space, options)

        return SeededSampler(seeded, options.seed)

    return make_sampler


def random(seed: int, space: Space, options: MethodOptions) -> BaseSampler:  # noqa: ARG001 - Method's signature
    """Return a sampler that draws every network independently."""
    return optuna.samplers.RandomSampler(seed=seed)


def brute(seed: int, space: Space, options: MethodOptions) -> BaseSampler:  # noqa: ARG001 - Method's signature
    """Return a sampler that tries every network of a finite space."""
    return optuna.samplers.BruteForceSampler(seed=seed)


def tpe(seed: int, space: Space, options: MethodOptions) -> BaseSampler:  # noqa: ARG001 - Method's signature
    """Return a sampler that models good and bad networks by tree-structured Parzen estimators."""
    return optuna.samplers.TPESampler(
        seed=seed, multivariate=True, group=space.is_conditional, constant_liar=True
    )


def cmaes(seed: int, space: Space, options: MethodOptions) -> BaseSampler:  # noqa: ARG001 - Method's signature
    """Return a sampler that adapts the covariance of a normal distribution over numbers."""
    return optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)


def nsga2(seed: int, space: Space, options: MethodOptions) -> BaseSampler:  # noqa: ARG001 - Method's signature
    """Return a sampler that evolves by non-dominated sorting, for several objectives."""
    return optuna.samplers.NSGAIISampler(seed=seed, population_size=options.population)
