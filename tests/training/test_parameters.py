"""Flat parameters give the same numbers as PyTorch's usual way of training."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tarmac import RequestError
from tarmac.training.engine.parameters import Parameters


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 6 * 6, 16),
        nn.ReLU(),
        nn.Linear(16, 3),
    )


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (
            torch.randn(5, 2, 8, 8, generator=generator),
            torch.randint(0, 3, (5,), generator=generator),
        )
        for _ in range(count)
    ]


def train_plainly(model: nn.Module, *, bf16: bool) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for inputs, targets in batches(5):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(inputs)
        optimizer.zero_grad()
        F.cross_entropy(logits.float(), targets).backward()
        optimizer.step()


def train_flat(model: nn.Module, *, bf16: bool) -> dict[str, torch.Tensor]:
    parameters = Parameters(model, weight_decay={}, bf16=bf16)
    (group,) = parameters.groups
    flat = nn.Parameter(group.values)
    flat.grad = group.gradients
    optimizer = torch.optim.SGD([flat], lr=0.1, momentum=0.9)
    for inputs, targets in batches(5):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16, cache_enabled=False):
            logits = model(inputs)
        loss = F.cross_entropy(logits.float(), targets)
        parameters.take_gradients(torch.autograd.grad(loss, parameters.leaves))
        optimizer.step()
        parameters.publish()
    return parameters.state_dict()


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_flat_training_ends_with_the_weights_of_plain_training(bf16, layout):
    plain, flat = network().to(memory_format=layout), network().to(memory_format=layout)
    train_plainly(plain, bf16=bf16)
    reached = train_flat(flat, bf16=bf16)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(reached[name], value, rtol=1e-6, atol=1e-7, msg=name)


def test_normalisations_stay_in_fp32_beside_bf16_layers():
    model = network()
    Parameters(model, weight_decay={}, bf16=True)
    dtypes = {name: p.dtype for name, p in model.named_parameters()}
    assert dtypes["0.weight"] == dtypes["4.bias"] == torch.bfloat16
    assert dtypes["1.weight"] == dtypes["1.bias"] == torch.float32


def test_state_dict_is_fp32_and_survives_a_round_trip():
    first, second = network(), network()
    saved = Parameters(first, weight_decay={}, bf16=True)
    for group in saved.groups:
        group.values.normal_(generator=torch.Generator().manual_seed(2))
    restored = Parameters(second, weight_decay={}, bf16=True)
    restored.load_state_dict(saved.state_dict())
    saved.publish()
    for name, value in saved.state_dict().items():
        assert torch.equal(restored.state_dict()[name], value), name
        assert value.dtype in (torch.float32, torch.int64)
    for ours, theirs in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_each_weight_decay_has_a_group_of_its_own():
    parameters = Parameters(network(), weight_decay={"4.weight": 0.5}, bf16=False)
    sizes = {group.weight_decay: group.values.numel() for group in parameters.groups}
    assert sizes[0.5] == 4 * 6 * 6 * 16
    assert sum(sizes.values()) == parameters.num_parameters


def test_a_weight_decay_that_matches_nothing_is_refused():
    with pytest.raises(RequestError, match=r"'local3\.weight', which matches no parameter"):
        Parameters(network(), weight_decay={"local3.weight": 0.1}, bf16=False)


def test_a_tied_weight_is_trained_once():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    parameters = Parameters(model, weight_decay={}, bf16=True)
    assert parameters.num_parameters == 16
    parameters.groups[0].values.fill_(2)
    parameters.publish()
    assert model[0].weight is model[1].weight
    assert torch.equal(parameters.state_dict()["1.weight"], torch.full((4, 4), 2.0))


def test_a_parameter_that_was_not_used_has_a_gradient_of_zero():
    parameters = Parameters(network(), weight_decay={}, bf16=False)
    group = parameters.groups[0]
    group.gradients.fill_(7)
    gradients = [torch.ones_like(leaf) for leaf in parameters.leaves]
    parameters.take_gradients([None, *gradients[1:]])
    assert group.gradients.sum() == parameters.num_parameters - parameters.leaves[0].numel()


def test_a_model_without_parameters_is_refused():
    with pytest.raises(RequestError, match="no parameters to train"):
        Parameters(nn.Flatten(), weight_decay={}, bf16=False)
