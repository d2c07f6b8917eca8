"""Blocks that are computed again: the same gradients, of less that is kept."""

from __future__ import annotations

import pytest
import sharded_workloads
import torch
from sharded_workloads import OPTIONS, Blocks
from torch import nn

import tarmac
from tarmac.testing.strategies import assert_close, weights_of
from tarmac.training.engine.blocks import checkpoint_activations, find_blocks


def kept_bytes(model: nn.Module) -> int:
    """Return the bytes that a forward pass keeps for the backward pass, beside the parameters."""
    parameters = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in parameters:
            kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(torch.ones(128, 64))
    return sum(kept.values())


def test_blocks_keep_their_inputs_alone():
    plain, again = Blocks(), Blocks()
    checkpoint_activations(again)
    assert kept_bytes(again) < kept_bytes(plain) / 2


@pytest.mark.parametrize(("strategy", "devices"), [("single", "cpu"), ("towers", "cpu:2")])
def test_the_weights_are_the_same(tmp_path, strategy, devices):
    kept, again = (
        tarmac.train(
            f"{sharded_workloads.__file__}:dropping",
            output=tmp_path,
            strategy=strategy,
            devices=devices,
            activation_checkpointing=is_on,
            **OPTIONS,
        )
        for is_on in (False, True)
    )
    assert again.record.configuration["activation_checkpointing"] is True
    assert_close(weights_of(again), weights_of(kept), 1e-13, strategy)


def test_blocks_are_the_outermost_that_are_repeated():
    assert [*find_blocks(Blocks())] == ["blocks.0", "blocks.1", "blocks.2"]
    assert not find_blocks(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
