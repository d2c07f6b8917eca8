"""Strided convolutions of one position, which PyTorch crashes in, computed in another way."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tarmac.training.engine.pointwise import SlicedConv2d, replace_strided


@pytest.mark.parametrize("channels", [1, 4, 9])
@pytest.mark.parametrize("stride", [2, (1, 3)])
@pytest.mark.parametrize("size", [7, 8])
def test_a_strided_convolution_of_few_channels_keeps_its_values_and_gradients(
    channels, stride, size
):
    # Contiguous float64 is what oneDNN leaves to PyTorch, whose kernels are right.
    plain = nn.Conv2d(channels, 8, 1, stride, dtype=torch.float64)
    sliced = copy.deepcopy(plain).to(torch.float32, memory_format=torch.channels_last)
    replace_strided(sliced)
    assert type(sliced) is SlicedConv2d
    inputs = torch.randn(4, channels, size, size, dtype=torch.float64)
    expected = plain(inputs)
    expected.square().sum().backward()
    got = sliced(inputs.float().contiguous(memory_format=torch.channels_last))
    got.square().sum().backward()
    torch.testing.assert_close(got, expected.float())
    torch.testing.assert_close(sliced.weight.grad, plain.weight.grad.float())


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 8, 1),
        nn.Conv2d(4, 8, 3, 2),
        nn.Conv2d(4, 8, 1, 2, padding=1),
        nn.Conv2d(16, 8, 1, 2),
        nn.ConvTranspose2d(4, 8, 1, 2),
    ],
    ids=str,
)
def test_other_convolutions_stay_as_they_are(layer):
    kind = type(layer)
    replace_strided(layer)
    assert type(layer) is kind
