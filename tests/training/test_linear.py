"""fp32's linear layers by oneDNN compute what PyTorch's do, where these are held back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tarmac
from tarmac.testing.strategies import assert_close, weights_of
from tarmac.training.engine import replica
from tarmac.training.engine.linear import FastLinear, mkl_is_held_back, replace_linears

AMD = {"vendor_id": "AuthenticAMD"}


@pytest.mark.parametrize(
    ("cpuinfo", "environ", "capability", "expected"),
    [
        (AMD, {}, "AVX512", True),
        ({"vendor_id": "GenuineIntel"}, {}, "AVX512", False),
        (AMD, {}, "AVX2", False),
        ({}, {}, "AVX512", False),
        (AMD, {"MKL_CBWR": "COMPATIBLE"}, "AVX512", False),
        (AMD, {"ONEDNN_MAX_CPU_ISA": "AVX2"}, "AVX512", False),
    ],
)
def test_mkl_is_held_back_on_other_makes_with_avx512_alone(cpuinfo, environ, capability, expected):
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        pytest.skip("PyTorch has no MKL or no oneDNN here")
    assert mkl_is_held_back(cpuinfo, environ, capability) is expected


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch has no oneDNN here")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_size", [1, 7, 128])
def test_values_and_gradients_are_those_of_a_linear_layer(batch_size, bias):
    torch.manual_seed(0)
    layer = nn.Linear(256, 300, bias=bias)
    inputs = torch.randn(batch_size, 256, requires_grad=True)
    along = torch.randn(batch_size, 300)
    wanted = (inputs, *layer.parameters())

    def outcome():
        outputs = layer(inputs)
        return outputs, *torch.autograd.grad((outputs * along).sum(), wanted)

    expected = outcome()
    replace_linears(layer)
    assert type(layer) is FastLinear
    for ours, theirs in zip(outcome(), expected, strict=True):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch has no oneDNN here")
def test_gradients_have_gradients():
    torch.manual_seed(0)
    layer = nn.Linear(256, 300)
    inputs = torch.randn(7, 256, requires_grad=True)

    def penalty():
        (of_inputs,) = torch.autograd.grad(layer(inputs).square().sum(), inputs, create_graph=True)
        return torch.autograd.grad(of_inputs.square().sum(), (inputs, layer.weight))

    expected = penalty()
    replace_linears(layer)
    for ours, theirs in zip(penalty(), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-2)


def test_small_layers_subclasses_and_what_is_no_fp32_matrix_stay_with_pytorch():
    class Own(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(16, 16), Own(256, 256), nn.Linear(256, 256))
    replace_linears(model)
    assert [type(layer) for layer in model] == [nn.Linear, Own, FastLinear]
    double, cube = torch.randn(2, 256).double(), torch.randn(2, 3, 256)
    large = model[2]
    assert torch.equal(large(cube), nn.functional.linear(cube, large.weight, large.bias))
    large.double()
    assert torch.equal(large(double), nn.functional.linear(double, large.weight, large.bias))


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch has no oneDNN here")
@pytest.mark.parametrize("options", [{}, {"devices": "cpu:2", "strategy": "towers"}])
def test_a_training_by_onednn_makes_the_weights_of_one_by_mkl(tmp_path, monkeypatch, options):
    def train(*, by_onednn):
        monkeypatch.setattr(replica, "mkl_is_held_back", lambda: by_onednn)
        chosen = {"dataset": "digits", "neurons": 512, "optimizer": "sgd"}
        asked = {"devices": "cpu", "precision": "fp32", "epochs": 1, "train_size": 200}
        return weights_of(
            tarmac.train("mlp", settings=chosen, output=tmp_path, **(asked | options))
        )

    assert_close(train(by_onednn=True), train(by_onednn=False), 1e-4, "oneDNN")
