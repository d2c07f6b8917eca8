"""What samples draw is a function of their seeds, whatever was read before."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tarmac.training.engine.sample_draws import SampleDraws, drawing_from

DRAWS: dict[str, Callable[[], float]] = {
    "torch": lambda: torch.rand(()).item(),
    "numpy": np.random.random_sample,
    "python": random.random,
}


def read(draws: SampleDraws, seeds: list[int], draw: Callable[[int], float]) -> list[float]:
    def make(seed: Callable[[int], None]) -> list[float]:
        found = []
        for number in seeds:
            seed(number)
            found.append(draw(number))
        return found

    return draws.settled(make)


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_gives_the_same_draw_in_whatever_batch_it_is(name):
    draw = DRAWS[name]
    draws = SampleDraws()
    together = read(draws, [5, 2**70, -3], lambda _: draw())
    assert len(set(together)) == 3
    assert read(draws, [-3, 5], lambda _: draw()) == [together[2], together[0]]
    assert read(SampleDraws(), [2**70], lambda _: draw()) == [together[1]]


@pytest.mark.parametrize("name", DRAWS)
def test_a_sample_that_is_the_first_to_draw_draws_as_one_of_many(name):
    draws, draw = SampleDraws(), DRAWS[name]
    assert read(draws, [1, 2], lambda _: 0.0) == [0.0, 0.0]
    rare = read(draws, [1, 2, 3], lambda number: draw() if number == 2 else 0.0)
    assert rare == [0.0, *read(SampleDraws(), [2], lambda _: draw()), 0.0]


def test_an_error_is_that_of_what_a_sample_draws():
    def draw(_: int) -> float:
        raise ValueError(random.random())

    with pytest.raises(ValueError, match=str(random.Random(9).random())):
        read(SampleDraws(), [9], draw)


def test_what_others_draw_is_not_disturbed():
    def drawn() -> list[float]:
        return [draw() for draw in DRAWS.values()]

    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(4)
    undisturbed = drawn() + drawn()
    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(4)
    first = drawn()
    read(SampleDraws(), [5, 6], lambda _: sum(drawn()))
    with drawing_from(7):
        drawn()
    assert first + drawn() == undisturbed
