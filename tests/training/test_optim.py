"""The fused optimizers over flat groups compute what their documentation says."""

from __future__ import annotations

import math

import pytest
import torch

from tarmac import RequestError
from tarmac.training.engine.optimizers import FlatOptimizer
from tarmac.training.engine.parameters import Group
from tarmac.workloads import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Nadam, RMSprop

SPECS = {
    "sgd": SGD(learning_rate=0.1, momentum=0.9, nesterov=True),
    "rmsprop": RMSprop(learning_rate=1e-3, rho=0.9, eps=1e-8),
    "slow-rmsprop": RMSprop(learning_rate=1e-3, rho=0.9999, eps=1e-8),
    "adam": Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8),
    "adamw": AdamW(learning_rate=1e-3, beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.1),
    "adadelta": Adadelta(learning_rate=1.0, rho=0.95, eps=1e-8),
    "adagrad": Adagrad(learning_rate=1e-2, eps=1e-8),
    "adamax": Adamax(learning_rate=2e-3, beta1=0.9, beta2=0.999, eps=1e-8),
    "nadam": Nadam(learning_rate=2e-3, beta1=0.9, beta2=0.999, eps=1e-8, momentum_decay=0.004),
}


def reference(spec, values, gradients, weight_decay):
    """Step as the formulas in the specs' docstrings say, in float64."""
    w = values.double()
    state = [torch.zeros_like(w), torch.zeros_like(w)]
    for number, gradient in enumerate(gradients, start=1):
        g = gradient.double() + (0.0 if isinstance(spec, AdamW) else weight_decay) * w
        match spec:
            case SGD():
                state[0] = spec.momentum * state[0] + g
                step = g + spec.momentum * state[0] if spec.nesterov else state[0]
                w = w - spec.learning_rate * step
            case RMSprop():
                state[0] = spec.rho * state[0] + (1 - spec.rho) * g**2
                w = w - spec.learning_rate * g / (state[0].sqrt() + spec.eps)
            case Adam() | AdamW():
                if isinstance(spec, AdamW):
                    w = w - spec.learning_rate * weight_decay * w
                state[0] = spec.beta1 * state[0] + (1 - spec.beta1) * g
                state[1] = spec.beta2 * state[1] + (1 - spec.beta2) * g**2
                mean = state[0] / (1 - spec.beta1**number)
                square = state[1] / (1 - spec.beta2**number)
                w = w - spec.learning_rate * mean / (square.sqrt() + spec.eps)
            case Adadelta():
                state[0] = spec.rho * state[0] + (1 - spec.rho) * g**2
                delta = ((state[1] + spec.eps) / (state[0] + spec.eps)).sqrt() * g
                state[1] = spec.rho * state[1] + (1 - spec.rho) * delta**2
                w = w - spec.learning_rate * delta
            case Adagrad():
                state[0] = state[0] + g**2
                w = w - spec.learning_rate * g / (state[0].sqrt() + spec.eps)
            case Adamax():
                state[0] = spec.beta1 * state[0] + (1 - spec.beta1) * g
                state[1] = torch.maximum(spec.beta2 * state[1], g.abs() + spec.eps)
                w = w - spec.learning_rate / (1 - spec.beta1**number) * state[0] / state[1]
            case Nadam():
                mus = [
                    spec.beta1 * (1 - 0.5 * 0.96 ** (t * spec.momentum_decay))
                    for t in range(1, number + 2)
                ]
                state[0] = spec.beta1 * state[0] + (1 - spec.beta1) * g
                state[1] = spec.beta2 * state[1] + (1 - spec.beta2) * g**2
                ahead = (1 - mus[-2]) / (1 - math.prod(mus[:-1])) * g
                ahead = ahead + mus[-1] / (1 - math.prod(mus)) * state[0]
                square = state[1] / (1 - spec.beta2**number)
                w = w - spec.learning_rate * ahead / (square.sqrt() + spec.eps)
    return w


def make(seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = [torch.randn(50, generator=generator) for _ in range(2)]
    gradients = [[torch.randn(50, generator=generator) for _ in range(6)] for _ in range(2)]
    groups = [
        Group(weight_decay=decay, values=v.clone(), gradients=torch.zeros(50))
        for decay, v in zip((0.0, 0.01), values, strict=True)
    ]
    return groups, values, gradients


def step(optimizer, groups, gradients, steps):
    for number in steps:
        for group, series in zip(groups, gradients, strict=True):
            group.gradients.copy_(series[number])
        optimizer.step()


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_an_optimizer_steps_as_its_formula_says(spec):
    groups, values, gradients = make()
    step(FlatOptimizer(spec, groups), groups, gradients, range(6))
    for group, start, series in zip(groups, values, gradients, strict=True):
        expected = reference(spec, start, series, group.weight_decay)
        torch.testing.assert_close(group.values.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_restored_optimizer_goes_on_bit_for_bit(spec):
    groups, _, gradients = make()
    optimizer = FlatOptimizer(spec, groups)
    step(optimizer, groups, gradients, range(3))
    saved = {name: value.clone() for name, value in optimizer.state().items()}
    weights = [group.values.clone() for group in groups]
    step(optimizer, groups, gradients, range(3, 6))

    again, _, _ = make()
    for group, value in zip(again, weights, strict=True):
        group.values.copy_(value)
    restored = FlatOptimizer(spec, again)
    restored.load_state(saved)
    step(restored, again, gradients, range(3, 6))
    for ours, theirs in zip(again, groups, strict=True):
        assert torch.equal(ours.values, theirs.values)


def test_the_learning_rate_reaches_every_group():
    groups, _, gradients = make()
    optimizer = FlatOptimizer(SPECS["adam"], groups)
    before = [group.values.clone() for group in groups]
    optimizer.set_learning_rate(0.0)
    step(optimizer, groups, gradients, range(1))
    assert all(torch.equal(g.values, b) for g, b in zip(groups, before, strict=True))


@pytest.mark.parametrize(
    ("make_spec", "message"),
    [
        (lambda: SGD(learning_rate=0, momentum=0, nesterov=False), "learning_rate is 0"),
        (
            lambda: SGD(learning_rate=math.inf, momentum=0, nesterov=False),
            "learning_rate is inf, expected a finite number",
        ),
        (lambda: SGD(learning_rate=1, momentum=1, nesterov=False), r"optimizer\.momentum is 1"),
        (
            lambda: AdamW(learning_rate=1, beta1=0, beta2=0, eps=0, weight_decay=-1),
            r"optimizer\.weight_decay is -1, expected at least 0",
        ),
        (lambda: RMSprop(learning_rate=1, rho=-0.1, eps=0), r"optimizer\.rho is -0\.1"),
    ],
)
def test_a_value_that_cannot_be_is_refused(make_spec, message):
    with pytest.raises(RequestError, match=message):
        make_spec()
