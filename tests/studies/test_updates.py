"""All optimizers of a stack at once do what they do block by block."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tarmac.studies.evaluation.stacked.layout import Layout
from tarmac.studies.evaluation.stacked.updates import BlockedUpdates, Rule, WholeUpdates
from tarmac.workloads import Constant, OneCycle, find_workload

OPTIMIZERS = find_workload("mlp").optimizers
SIZES = (7, 11, 5)
SCHEDULES = (Constant(), OneCycle(warmup=0.3, start=0.1, end=0.0))


def rules(count: int) -> list[Rule]:
    """Return networks' rules: every optimizer, some twice, with two schedules."""
    return [
        Rule(OPTIMIZERS[name], SCHEDULES[number % 2], 4)
        for number, name in enumerate([*OPTIMIZERS, *OPTIMIZERS][:count])
    ]


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_optimizers_at_once_are_those_of_blocks(dtype, decay):
    generator = torch.Generator().manual_seed(0)
    own = rules(9)
    layout = Layout(SIZES, len(own))
    values = torch.randn(layout.num_elements, generator=generator)
    segments = [(s, decay if i % 2 else 0.0) for i, s in enumerate(layout.segments)]
    made = []
    for kind in (BlockedUpdates, WholeUpdates):
        mine, gradients = values.clone(), torch.zeros(layout.num_elements, dtype=dtype)
        whole_copy = kind is WholeUpdates or dtype != torch.float32
        published = mine.to(dtype, copy=True) if whole_copy else mine
        made.append((kind(own, segments, mine, gradients, published), gradients, published))
    for step in range(5):
        drawn = torch.randn(layout.num_elements, generator=generator).to(dtype)
        for updates, gradients, _ in made:
            gradients.copy_(drawn)
            updates.step(updates.rates([step / 5])[0])
    (blocked, _, published), (whole, _, published_whole) = made
    ours, theirs = whole.state(), blocked.state()
    inside = torch.cat(
        [s.rows(torch.arange(len(values)), len(own)).flatten() for s in layout.segments]
    )
    torch.testing.assert_close(ours.values[inside], theirs.values[inside], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        published_whole[inside],
        published[inside],
        rtol=1e-2 if dtype != torch.float32 else 1e-5,
        atol=1e-6,
    )
    assert ours.flat.keys() == theirs.flat.keys()
    for name, value in ours.flat.items():
        torch.testing.assert_close(value, theirs.flat[name], rtol=1e-5, atol=1e-6)
    assert ours.scalars.keys() == theirs.scalars.keys()


def test_optimizers_at_once_go_on_from_their_state():
    generator = torch.Generator().manual_seed(0)
    own = rules(7)
    layout = Layout(SIZES, len(own))
    segments = [(segment, 0.0) for segment in layout.segments]
    first = torch.randn(layout.num_elements, generator=generator)
    drawn = [torch.randn(layout.num_elements, generator=generator) for _ in range(4)]

    def make(values):
        gradients = torch.zeros(layout.num_elements)
        return WholeUpdates(own, segments, values, gradients, values.clone()), gradients

    through, gradients = make(first)
    for step, given in enumerate(drawn):
        gradients.copy_(given)
        through.step(through.rates([step])[0])
        if step == 1:
            state = through.state()
            state = dataclasses.replace(
                state,
                values=state.values.clone(),
                flat={name: value.clone() for name, value in state.flat.items()},
                scalars={
                    rule: {name: value.clone() for name, value in each.items()}
                    for rule, each in state.scalars.items()
                },
            )
    again, gradients = make(state.values)
    again.load_state(state)
    for step in (2, 3):
        gradients.copy_(drawn[step])
        again.step(again.rates([step])[0])
    assert torch.equal(again.state().values, through.state().values)
