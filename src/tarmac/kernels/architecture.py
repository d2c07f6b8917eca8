"""The structure of a multilayer perceptron, read from the module that a workload builds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import torch
from torch import nn

from tarmac.kernels.network import UnfitNetworkError

_ACTIVATIONS = {nn.ReLU: "relu", nn.ELU: "elu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid"}


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A multilayer perceptron.

    Attributes:
        sizes: Features of the input, of each hidden layer, and of the logits.
        activations: Activation of each hidden layer: ``relu``, ``elu``, ``tanh`` or ``sigmoid``.
        dropouts: Dropout probability after each hidden layer, 0 for none.
        parameters: Weights ``[out, in]`` and biases ``[out]`` of each layer.
        names: Names of the parameters, in the same order.
    """

    sizes: tuple[int, ...]
    activations: tuple[str, ...]
    dropouts: tuple[float, ...]
    parameters: Sequence[tuple[torch.Tensor, torch.Tensor]]
    names: Sequence[tuple[str, str]]

    @property
    def num_parameters(self) -> int:
        """The number of weights and biases."""
        return sum(w.numel() + b.numel() for w, b in self.parameters)


def read_architecture(model: nn.Module) -> Architecture:
    """Read a `torch.nn.Sequential` of Flatten, Linear, activations and Dropout.

    Raises:
        UnfitNetworkError: The model has other layers, shared weights, a layer without a bias, or
            frozen parameters.
    """
    layers = [*_flat("", model)]
    while layers and type(layers[0][1]) is nn.Flatten and layers[0][1].start_dim == 1:
        layers.pop(0)
    linears: list[tuple[str, nn.Linear]] = []
    activations: list[str] = []
    dropouts: list[float] = []
    place = "start"
    for name, layer in layers:
        if type(layer) is nn.Linear and place in ("start", "activation", "dropout"):
            if place == "activation":
                dropouts.append(0.0)
            linears.append((name, _checked(name, layer)))
            place = "linear"
        elif type(layer) in _ACTIVATIONS and place == "linear" and _is_plain(layer):
            activations.append(_ACTIVATIONS[type(layer)])
            place = "activation"
        elif type(layer) is nn.Dropout and place == "activation":
            dropouts.append(layer.p)
            place = "dropout"
        else:
            raise UnfitNetworkError(f"layer {name} is {layer}, after {place}")
    if place != "linear":
        raise UnfitNetworkError("its last layer is not a Linear")
    if len({id(layer.weight) for _, layer in linears}) < len(linears):
        raise UnfitNetworkError("its layers share weights")
    return Architecture(
        sizes=(linears[0][1].in_features, *(layer.out_features for _, layer in linears)),
        activations=tuple(activations),
        dropouts=tuple(dropouts),
        parameters=[(layer.weight.detach(), layer.bias.detach()) for _, layer in linears],
        names=[(f"{name}.weight", f"{name}.bias") for name, _ in linears],
    )


def _flat(prefix: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules in nested Sequentials, in order, with their full names."""
    if type(module) is not nn.Sequential:
        yield prefix or type(module).__name__, module
        return
    for name, child in module.named_children():
        yield from _flat(f"{prefix}.{name}" if prefix else name, child)


def _is_plain(layer: nn.Module) -> bool:
    return not isinstance(layer, nn.ELU) or layer.alpha == 1.0


def _checked(name: str, layer: nn.Linear) -> nn.Linear:
    if layer.bias is None:
        raise UnfitNetworkError(f"layer {name} has no bias")
    if not all(parameter.requires_grad for parameter in layer.parameters()):
        raise UnfitNetworkError(f"layer {name} is frozen")
    return layer
