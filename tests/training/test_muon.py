"""Muon's batched update is its formula, matrix by matrix."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tarmac import RequestError
from tarmac.training.engine.muon import MuonOptimizer, orthogonalise
from tarmac.training.engine.parameters import Parameters
from tarmac.workloads import Muon

SPEC = Muon(learning_rate=0.1, momentum=0.6, nesterov=True, iterations=5, fixed_norm=False)
SPECS = {
    "nesterov": SPEC,
    "plain momentum": Muon(
        learning_rate=0.1, momentum=0.9, nesterov=False, iterations=3, fixed_norm=False
    ),
    "fixed norm": Muon(
        learning_rate=0.1, momentum=0.6, nesterov=True, iterations=3, fixed_norm=True
    ),
}


def network() -> nn.Module:
    """Wide, tall and square matrices; filters among them."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(2, 4, 3), nn.Conv2d(1, 30, 3), nn.Linear(7, 12), nn.Linear(5, 5))
    model = nn.ModuleList(layers)
    for layer in layers:
        layer.bias = None
    return model


def optimizer_of(model, spec=SPEC, *, bf16=False, dtype=torch.float64, weight_decay=None):
    model.to(dtype=dtype).to(memory_format=torch.channels_last)
    parameters = Parameters(model, weight_decay=weight_decay or {}, bf16=bf16, dtype=dtype)
    return MuonOptimizer(spec, parameters.groups), parameters


def gradients_of(model, number):
    generator = torch.Generator().manual_seed(number)
    return [
        torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in model.parameters()
    ]


def step(optimizer, parameters, model, numbers):
    order = {id(p): index for index, p in enumerate(model.parameters())}
    for number in numbers:
        gradients = gradients_of(model, number)
        parameters.take_gradients([gradients[order[id(p)]] for p in parameters.leaves])
        optimizer.step()


def reference(spec, weight, gradients):
    """Step one matrix as the docstring says, in float64, by the polynomial of singular values."""
    w = weight.double().flatten(1)
    v = torch.zeros_like(w)
    for gradient in gradients:
        g = gradient.double().flatten(1)
        v = spec.momentum * v + g
        left, values, right = torch.linalg.svd(
            g + spec.momentum * v if spec.nesterov else v, full_matrices=False
        )
        values = values / (values.norm() + 1e-7)
        for _ in range(spec.iterations):
            values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
        if spec.fixed_norm:
            w = w * len(w) ** 0.5 / w.norm()
        update = left @ values.diag() @ right
        w = w - spec.learning_rate * max(1.0, len(w) / w.shape[1]) ** 0.5 * update
    return w.view(weight.shape)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_matrix_is_updated_as_the_formula_says(spec):
    model = network()
    starts = [p.detach().double().clone() for p in model.parameters()]
    optimizer, parameters = optimizer_of(model, spec)
    step(optimizer, parameters, model, range(3))
    series = [gradients_of(model, number) for number in range(3)]
    for index, parameter in enumerate(model.parameters()):
        expected = reference(spec, starts[index], [gradients[index] for gradients in series])
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-9, atol=1e-10)


def test_singular_values_come_near_one():
    torch.manual_seed(0)
    stack = torch.randn(3, 16, 40)
    values = torch.linalg.svdvals(orthogonalise(stack, 5))
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_padding_with_zeros_changes_nothing():
    torch.manual_seed(0)
    matrix = torch.randn(1, 6, 10, dtype=torch.float64)
    padded = torch.zeros(1, 9, 20, dtype=torch.float64)
    padded[:, :6, :10] = matrix
    found = orthogonalise(padded, 3)
    torch.testing.assert_close(found[:, :6, :10], orthogonalise(matrix, 3))
    assert not found[:, 6:].any()
    assert not found[:, :, 10:].any()


def test_a_gradient_of_zeros_moves_nothing():
    model = network()
    before = [p.detach().clone() for p in model.parameters()]
    optimizer, _ = optimizer_of(model, dtype=torch.float32)
    optimizer.step()
    assert all(torch.equal(p, was) for p, was in zip(model.parameters(), before, strict=True))


def test_bf16_products_come_near_those_of_fp32():
    reached = []
    for bf16 in (False, True):
        model = network()
        optimizer, parameters = optimizer_of(model, bf16=bf16, dtype=torch.float32)
        step(optimizer, parameters, model, range(3))
        reached.append(parameters.values.clone())
    torch.testing.assert_close(reached[0], reached[1], rtol=0.05, atol=0.01)


def test_a_restored_optimizer_goes_on_bit_for_bit():
    whole, cut = network(), network()
    optimizer, parameters = optimizer_of(whole, dtype=torch.float32)
    step(optimizer, parameters, whole, range(6))
    first, of_cut = optimizer_of(cut, dtype=torch.float32)
    step(first, of_cut, cut, range(3))
    again = network()
    restored, of_again = optimizer_of(again, dtype=torch.float32)
    of_again.load_state_dict(of_cut.state_dict())
    restored.load_state({name: value.clone() for name, value in first.state().items()})
    step(restored, of_again, again, range(3, 6))
    assert torch.equal(of_again.values, parameters.values)


def test_a_vector_is_refused():
    with pytest.raises(RequestError, match=r"Muon cannot train bias of shape \[3\]"):
        optimizer_of(nn.Linear(2, 3))


def test_weight_decay_is_refused():
    model = nn.Linear(2, 3, bias=False)
    with pytest.raises(
        RequestError, match=r"weight has weight decay 0\.1, which Muon does not support"
    ):
        optimizer_of(model, weight_decay={"*": 0.1})


@pytest.mark.parametrize(("field", "value"), [("iterations", 0), ("momentum", 1.0)])
def test_values_that_cannot_be_are_refused(field, value):
    values = {"learning_rate": 0.1, "momentum": 0.6, "nesterov": True, "iterations": 3}
    with pytest.raises(RequestError, match=f"optimizer.{field} is {value}"):
        Muon(**(values | {"fixed_norm": False, field: value}))
