"""The table of a model's layers: shapes as they come, each parameter once."""

from __future__ import annotations

import torch
from torch import nn

from tarmac.runs import Layer
from tarmac.training.layers import recording_layers


class Odd(nn.Module):
    """Shares a weight, has one of its own, attends, and has a layer that is never called."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.first = nn.Linear(4, 4, bias=False)
        self.again = nn.Linear(4, 4, bias=False)
        self.again.weight = self.first.weight
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.recurrent = nn.GRU(4, 3, batch_first=True)
        self.idle = nn.Linear(4, 9)

    def forward(self, x):
        x = self.again(self.first(x)) * self.scale
        x, _ = self.attention(x, x, x)
        return self.recurrent(x)


def test_compiled_layers_are_listed_without_a_shape():
    model = nn.Sequential(torch.jit.script(nn.Linear(4, 2)), nn.ReLU())
    with recording_layers(model) as layers:
        model(torch.zeros(2, 4))
    assert [(layer.shape, layer.parameters) for layer in layers] == [(None, 10), ((2,), 0)]


def test_a_module_in_several_places_is_listed_in_each_and_counts_once():
    twice = nn.Linear(4, 4)
    model = nn.Sequential(twice, nn.ReLU(), twice, nn.Linear(4, 2))
    with recording_layers(model) as layers:
        model(torch.zeros(2, 4))
    assert [(layer.name, layer.shape, layer.parameters) for layer in layers] == [
        ("0", (4,), 20),
        ("1", (4,), 0),
        ("2", (4,), 0),
        ("3", (2,), 10),
    ]


def test_each_layer_has_its_shape_and_each_parameter_counts_once():
    model = Odd()
    with recording_layers(model) as layers:
        model(torch.zeros(2, 5, 4))
    assert layers == [
        Layer(name="model", kind="Odd", shape=(5, 3), parameters=4),
        Layer(name="first", kind="Linear", shape=(5, 4), parameters=16),
        Layer(name="again", kind="Linear", shape=(5, 4), parameters=0),
        Layer(name="attention", kind="MultiheadAttention", shape=(5, 4), parameters=60),
        Layer(
            name="attention.out_proj",
            kind="NonDynamicallyQuantizableLinear",
            shape=None,
            parameters=20,
        ),
        Layer(name="recurrent", kind="GRU", shape=(5, 3), parameters=81),
        Layer(name="idle", kind="Linear", shape=None, parameters=45),
    ]
    assert sum(layer.parameters for layer in layers) == sum(p.numel() for p in model.parameters())
    assert not model.first._forward_hooks
