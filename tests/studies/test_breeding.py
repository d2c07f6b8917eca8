"""Which networks survive and which children they have, without a study."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.studies import Choices, Space
from tarmac.studies.methods.breeding import Individual, Rules, make_child, select
from tarmac.studies.space import seeded

SPACE = Space({"a": Choices((1, 2, 3)), "b": Choices(("x", "y")), "c": Choices((0.1, 0.2))})


def individual(number, *values, is_whole=True, genes=None):
    return Individual(number, genes or {"a": 1, "b": "x", "c": 0.1}, values, is_whole)


def test_the_best_survive_in_the_order_of_their_numbers():
    pool = [individual(number, value) for number, value in enumerate((0.1, 0.9, 0.3, 0.8, 0.2))]
    rules = Rules(population_size=5, retain=0.4, random_select=0.0, mutate=0.2)
    assert select(pool, [True], rules, seeded(0)) == [1, 3]
    assert select(pool, [False], rules, seeded(0)) == [0, 4]


def test_one_that_was_stopped_early_ranks_behind_every_other():
    pool = [individual(0, 0.9, is_whole=False), individual(1, 0.1), individual(2, 0.2)]
    rules = Rules(population_size=5, retain=0.4, random_select=0.0, mutate=0.2)
    assert select(pool, [True], rules, seeded(0)) == [1, 2]


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_the_others_survive_by_chance_but_never_all(chance):
    pool = [individual(number, number / 10) for number in range(10)]
    rules = Rules(population_size=10, retain=0.4, random_select=chance, mutate=0.2)
    assert len(select(pool, [True], rules, seeded(0))) == (9 if chance else 4)


@given(st.integers(0, 2**20))
def test_a_child_has_each_gene_from_either_parent(seed):
    one = individual(3, 0.5, genes={"a": 1, "b": "x", "c": 0.1})
    other = individual(7, 0.4, genes={"a": 2, "b": "y", "c": 0.2})
    values, origin = make_child([one, other], SPACE, 0.0, seeded(seed))
    assert origin in ("3 x 7", "7 x 3")
    assert all(values[name] in (one.genes[name], other.genes[name]) for name in SPACE.parameters)
    assert (values, origin) == make_child([one, other], SPACE, 0.0, seeded(seed))


@given(st.integers(0, 2**20))
def test_an_only_parent_has_children_that_differ_from_it_in_one_gene(seed):
    only = individual(3, 0.5)
    values, origin = make_child([only], SPACE, 0.0, seeded(seed))
    (changed,) = [name for name, value in values.items() if value != only.genes[name]]
    assert origin == f"3, {changed} mutated"
