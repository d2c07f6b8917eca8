"""What a search method is: a name, the sampler that it makes, and what it needs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from tarmac.studies.ledger import Ledger
    from tarmac.studies.space import Space
    from tarmac.training import Setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """What a request says to its method; the fields of `tarmac.studies.Request` of these names.

    Attributes:
        seed: Seed of all random draws. Default 0.
        population: Networks in a generation, survivors of earlier ones included.
        retain: The share of a population that survives by fitness, 0 to 1.
        random_select: The probability with which each of the others survives.
        mutate: The probability with which a child has one gene changed.
    """

    seed: int = 0
    population: int = 20
    retain: float = 0.4
    random_select: float = 0.1
    mutate: float = 0.2


@dataclasses.dataclass(frozen=True)
class Child:
    """A network that nobody has tried.

    Attributes:
        values: Values of its parameters, by name.
        origin: How it came about, such as ``3 x 7, optimizer mutated``.
        reused: Numbers of finished trials that were bred again on the way to it.
    """

    values: dict[str, Setting]
    origin: str
    reused: tuple[int, ...] = ()


@runtime_checkable
class GenerationSampler(Protocol):
    """A sampler that plans a generation of networks at once, so that they can train together."""

    def num_children(self, study: Study, generation: int) -> int:
        """Return how many new networks a generation has."""
        ...

    def get_parent_population(self, study: Study, generation: int) -> Sequence[FrozenTrial]:
        """Return the survivors that a generation begins with."""
        ...

    def breed(self, study: Study, generation: int, place: int) -> Child | None:
        """Make the network for a place in a generation, both from 0; None where none is left."""
        ...


def _accept_options(options: MethodOptions) -> None:
    """Accept any options."""


def _accept_space(space: Space, num_objectives: int) -> None:
    """Accept any space."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """A search method. `tarmac.testing.methods` checks that one keeps what is promised here.

    Attributes:
        name: As ``--method`` takes it.
        summary: What it does, in a few words.
        make_sampler: Makes an Optuna sampler for a space. What it draws must be a function of the
            seed and the trials that there are: a search that goes on in another process makes a new
            sampler and must draw what the first would have drawn. `resumable` makes such a sampler
            of one of Optuna's.
        tries_all: Whether it tries every network of the space, so that no number of trainings
            limits it unless one was asked for.
        breeds_generations: Whether its sampler is a `GenerationSampler`.
        check_options: Raises a `FieldError` where it cannot work by these options.
        check_space: Raises a `FieldError` where it cannot search a space for so many objectives,
            and a `RequestError` where a package that it needs is not installed.
    """

    name: str
    summary: str
    make_sampler: Callable[[Space, MethodOptions, Ledger], BaseSampler]
    tries_all: bool = False
    breeds_generations: bool = False
    check_options: Callable[[MethodOptions], None] = _accept_options
    check_space: Callable[[Space, int], None] = _accept_space
