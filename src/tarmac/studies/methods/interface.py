"""The interface of search methods: a name, a factory of samplers, and checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from tarmac.studies.ledger import Ledger
    from tarmac.studies.space import Space
    from tarmac.training import Setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """The options of a search method, from the same fields of `tarmac.studies.Request`.

    Attributes:
        seed: Seed of all random draws. Default 0.
        population: Networks in a generation, including survivors. Default 20.
        retain: Share of a population that survives by fitness, 0 to 1. Default 0.4.
        random_select: Probability that each other network survives, 0 to 1. Default 0.1.
        mutate: Probability that one gene of a child changes, 0 to 1. Default 0.2.
    """

    seed: int = 0
    population: int = 20
    retain: float = 0.4
    random_select: float = 0.1
    mutate: float = 0.2


@dataclasses.dataclass(frozen=True)
class Child:
    """A new network of a generation.

    Attributes:
        values: Values of its parameters, by name.
        origin: Origin in words, such as ``3 x 7, optimizer mutated``.
        reused: Numbers of finished trials that were bred again before this child.
    """

    values: dict[str, Setting]
    origin: str
    reused: tuple[int, ...] = ()


@runtime_checkable
class GenerationSampler(Protocol):
    """A sampler that plans a generation of networks at once, so that they can train together."""

    def num_children(self, study: Study, generation: int) -> int:
        """Return the number of new networks in a generation."""
        ...

    def get_parent_population(self, study: Study, generation: int) -> Sequence[FrozenTrial]:
        """Return the survivors that a generation starts with."""
        ...

    def breed(self, study: Study, generation: int, place: int) -> Child | None:
        """Return the network at a place of a generation, both from 0; None if none is left."""
        ...


def _accept_options(options: MethodOptions) -> None:
    """Accept any options."""


def _accept_space(space: Space, num_objectives: int) -> None:
    """Accept any space."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """A search method; `tarmac.testing.methods` checks that it keeps the rules below.

    Attributes:
        name: Name of the method for ``--method``.
        summary: Description in a few words.
        make_sampler: Returns an Optuna sampler for a space. Its draws must depend only on the seed
            and the trials so far: a search that resumes in another process makes a new sampler,
            which must draw the same values as the first. `resumable` makes such a sampler from
            one of Optuna's.
        tries_all: Whether the method tries every network of the space. The number of trainings
            then has no limit unless the request sets one.
        breeds_generations: Whether its sampler is a `GenerationSampler`.
        check_options: Raises a `FieldError` for options that the method cannot use.
        check_space: Raises a `FieldError` for a space or number of objectives that the method
            cannot search, and a `RequestError` if a package that it needs is not installed.
    """

    name: str
    summary: str
    make_sampler: Callable[[Space, MethodOptions, Ledger], BaseSampler]
    tries_all: bool = False
    breeds_generations: bool = False
    check_options: Callable[[MethodOptions], None] = _accept_options
    check_space: Callable[[Space, int], None] = _accept_space
