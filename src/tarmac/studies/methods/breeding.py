"""The genetic algorithm alone: selection of survivors, and breeding of children.

Selection, crossover and mutation are those of harvitronix/neural-network-genetic-algorithm (2017)
and the searches derived from it. The best ``retain`` of a population survive, and each other
network survives with probability ``random_select``. Children of two different survivors fill the
population; each gene comes from either parent with probability 1/2. One gene of a child changes
with probability ``mutate``.

All functions are pure: they draw only from the generator that is passed in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tarmac.studies.objectives import best_first

if TYPE_CHECKING:
    import random

    from tarmac.studies.space import Space
    from tarmac.training import Setting


@dataclasses.dataclass(frozen=True)
class Rules:
    """The rules of an evolution.

    Attributes:
        population_size: Networks in a generation, including survivors.
        retain: Share of the population that survives by its values, 0 to 1.
        random_select: Probability that each other network survives, 0 to 1.
        mutate: Probability that one gene of a child changes, 0 to 1.
    """

    population_size: int
    retain: float
    random_select: float
    mutate: float


@dataclasses.dataclass(frozen=True)
class Individual:
    """A network with a score.

    Attributes:
        number: Number of the network's trial.
        genes: Its parameters, by name.
        values: Values of its objectives, in the study's order.
        is_whole: Whether its training completed; networks stopped early rank behind all others.
    """

    number: int
    genes: Mapping[str, Setting]
    values: tuple[float, ...]
    is_whole: bool


def num_survivors_by_fitness(retain: float, population: int) -> int:
    """Return the number of networks in the best ``retain`` of a population, rounded down."""
    # A product such as 0.7 * 10 may lie a rounding error below the exact whole number.
    return int(retain * population + 1e-9)


def num_survivors(retain: float, population: int) -> int:
    """Return the number of networks in a population that survive by fitness.

    The number is at least 2, because a child has two parents, and never the whole population.
    """
    return min(max(2, num_survivors_by_fitness(retain, population)), population - 1)


def select(
    pool: Sequence[Individual], maximize: Sequence[bool], rules: Rules, rng: random.Random
) -> list[int]:
    """Return the numbers of the survivors, in order.

    Args:
        pool: Networks to select from, all different, sorted by number.
        maximize: Whether more is better, by objective.
        rules: Rules that set the number of survivors.
        rng: Source of draws for networks that do not survive by their values.
    """
    ranked = [
        group[index]
        for group in (
            [individual for individual in pool if individual.is_whole],
            [individual for individual in pool if not individual.is_whole],
        )
        for index in best_first([individual.values for individual in group], maximize)
    ]
    keep = num_survivors(rules.retain, rules.population_size)
    survivors = ranked[:keep]
    survivors += [individual for individual in ranked[keep:] if rng.random() < rules.random_select]
    return sorted(individual.number for individual in survivors[: rules.population_size - 1])


def make_child(
    parents: Sequence[Individual], space: Space, mutate: float, rng: random.Random
) -> tuple[dict[str, Setting], str]:
    """Cross two parents, or copy the only one, and mutate with a probability.

    Args:
        parents: Parents to choose from, at least 1.
        space: Search space of the study.
        mutate: Probability of a mutation, see `Rules`; an only parent's child always mutates.
        rng: Source of all random draws.

    Returns:
        The child's parameters, and its origin, such as ``3 x 7, optimizer mutated``.
    """
    if len(parents) == 1:
        values, origin = dict(parents[0].genes), f"{parents[0].number}"
    else:
        mother, father = rng.sample(list(parents), 2)
        values, origin = {}, f"{mother.number} x {father.number}"
        for name in space.parameters:
            inherited = [parent.genes for parent in (mother, father) if name in parent.genes]
            # Draw in any case: later draws must not depend on the genes that a parent has.
            first = rng.random() < 0.5
            if inherited:
                values[name] = inherited[0 if first else -1][name]
    values = space.complete(values, rng)
    if len(parents) == 1 or rng.random() < mutate:
        name = rng.choice([*values])
        values[name] = _other_value(space, name, values[name], rng)
        values = space.complete(values, rng)
        origin += f", {name} mutated"
    return values, origin


def _other_value(space: Space, name: str, value: Setting, rng: random.Random) -> Setting:
    parameter = space.parameters[name]
    if parameter.size <= 1:
        return value
    while True:
        drawn = parameter.draw(rng)
        if drawn != value:
            return drawn
