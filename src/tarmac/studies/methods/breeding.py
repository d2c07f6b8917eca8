"""Which networks of a generation survive, and which children they have: the algorithm alone.

Selection, crossover and mutation are those of harvitronix/neural-network-genetic-algorithm (2017)
and the searches made of it: keep the best ``retain`` of a population and each other one with
probability ``random_select``; fill up with children of two different survivors, each gene from
either with probability 1/2; change one gene of a child with probability ``mutate``.

Every function is pure: what it draws, it draws from the generator that it is given.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.studies.objectives import best_first

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from tarmac.studies.space import Space
    from tarmac.training import Setting


@dataclasses.dataclass(frozen=True)
class Rules:
    """What an evolution goes by.

    Attributes:
        population_size: Networks in a generation, surviving ones included.
        retain: The share of the population that survives by its values.
        random_select: With which probability each of the others survives.
        mutate: With which probability one gene of a child is changed.
    """

    population_size: int
    retain: float
    random_select: float
    mutate: float


@dataclasses.dataclass(frozen=True)
class Individual:
    """A network that has a score.

    Attributes:
        number: Number of the network's trial.
        genes: Its parameters, by name.
        values: Values of its objectives, in the study's order.
        is_whole: Whether it was trained to its end; one stopped early ranks behind all others.
    """

    number: int
    genes: Mapping[str, Setting]
    values: tuple[float, ...]
    is_whole: bool


def num_survivors_by_fitness(retain: float, population: int) -> int:
    """Return how many networks are the best ``retain`` of a population, rounded down."""
    # A product such as 0.7 * 10 may lie a rounding error below the whole number that it means.
    return int(retain * population + 1e-9)


def num_survivors(retain: float, population: int) -> int:
    """Return how many of a population survive by their fitness.

    At least two, because a child has two parents, and never all.
    """
    return min(max(2, num_survivors_by_fitness(retain, population)), population - 1)


def select(
    pool: Sequence[Individual], maximize: Sequence[bool], rules: Rules, rng: random.Random
) -> list[int]:
    """Return the numbers of the survivors, in order.

    Args:
        pool: Different networks, by number.
        maximize: Whether more is better, by objective.
        rules: Say how many survive.
        rng: Draws for each that does not survive by its values.
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
    """Cross two parents, or take the only one, and mutate by chance.

    Args:
        parents: Parents to choose from, at least 1.
        space: What is searched over.
        mutate: See `Rules`; an only parent's child is always mutated.
        rng: Source of all random draws.

    Returns:
        The child's parameters, and how it came about, such as ``3 x 7, optimizer mutated``.
    """
    if len(parents) == 1:
        values, origin = dict(parents[0].genes), f"{parents[0].number}"
    else:
        mother, father = rng.sample(list(parents), 2)
        values, origin = {}, f"{mother.number} x {father.number}"
        for name in space.parameters:
            inherited = [parent.genes for parent in (mother, father) if name in parent.genes]
            # Drawn also where it decides nothing, so that a gene more or less in a parent does not
            # change what comes after.
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
