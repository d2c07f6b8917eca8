"""PyTorch's optimizers and the user's own, on views of the flat parameters.

They are called as their classes are, parameter by parameter. So they create their state at any
time, and it may hold numbers as well as tensors. A checkpoint holds all of it by name and kind.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from tarmac.errors import RequestError, TarmacError
from tarmac.training.engine.parameters import Group
from tarmac.workloads import TorchOptimizer

# Separates the parts of a state's name: its owner, its key and its kind.
_SEPARATOR = "|"

# This optimizer accepts only parameters of two dimensions.
_FOR_MATRICES = "torch.optim.Muon"
_MATRIX = 2

_NUMBERS: Mapping[str, torch.dtype] = {
    "bool": torch.bool,
    "int": torch.int64,
    "float": torch.float64,
}


class PyTorchOptimizer:
    """An optimizer that updates the parameters of flat groups by an optimizer class.

    Args:
        spec: The optimizer class and its arguments.
        groups: Flat groups to update, with the views of their parameters.

    Raises:
        RequestError: The class refuses its arguments or the parameters, or does not support the
            weight decay that a group needs.
    """

    # A class may read its rate from anywhere, so a CUDA graph could not follow a change.
    takes_rate_tensors = False

    def __init__(self, spec: TorchOptimizer, groups: Sequence[Group]) -> None:
        self._spec = spec
        self._leaves: dict[str, nn.Parameter] = {}
        param_groups = []
        knows_decay = "weight_decay" in inspect.signature(spec.kind).parameters
        for group in groups:
            own = [self._leaf(name, *views) for name, views in group.views.items()]
            param_groups.append(
                {"params": own} | ({"weight_decay": group.weight_decay} if knows_decay else {})
            )
            if group.weight_decay and not knows_decay:
                raise RequestError(
                    f"{next(iter(group.views))} has weight decay {group.weight_decay:g}, which "
                    f"{spec.name} does not support"
                )
        self._places = {name: leaf.data_ptr() for name, leaf in self._leaves.items()}
        self._has_stepped = False
        try:
            arguments = {"lr": spec.learning_rate, **spec.arguments}
            self._inner = spec.kind(param_groups, **arguments)
        except (TypeError, ValueError, RuntimeError) as error:
            vectors = [name for name, leaf in self._leaves.items() if leaf.dim() != _MATRIX]
            hint = None
            if spec.name == _FOR_MATRICES and vectors:
                hint = (
                    "Give these another optimizer in the recipe's parameter_groups: "
                    f"{', '.join(vectors)}"
                )
            raise RequestError(
                f"{spec.name} cannot train this model: {error}", hint=hint
            ) from error

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate from the next step on."""
        for group in self._inner.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def step(self) -> None:
        """Update every parameter."""
        self._inner.step()
        if not self._has_stepped:
            self._has_stepped = True
            self._check_places()

    def state(self) -> dict[str, torch.Tensor]:
        """Return the state by name, with numbers as tensors.

        Raises:
            TarmacError: A part of the state is neither a tensor nor a number.
        """
        tensors: dict[str, torch.Tensor] = {}
        for index, group in enumerate(self._inner.param_groups):
            for key, value in group.items():
                if isinstance(value, torch.Tensor | bool | int | float):
                    tensors |= dict([self._packed(f"group {index}", key, value)])
        for name, leaf in self._leaves.items():
            for key, value in self._inner.state.get(leaf, {}).items():
                tensors |= dict([self._packed(name, key, value)])
        return tensors

    def load_state(self, saved: Mapping[str, torch.Tensor]) -> None:
        """Restore the result of `state`, even before the optimizer has created its state."""
        self._inner.state.clear()
        groups = {f"group {i}": group for i, group in enumerate(self._inner.param_groups)}
        for name, value in saved.items():
            owner, key, kind = name.split(_SEPARATOR)
            if owner in groups:
                leaf = self._inner.param_groups[0]["params"][0]
                groups[owner][key] = _unpacked(value, kind, leaf)
            else:
                leaf = self._leaves[owner]
                self._inner.state[leaf][key] = _unpacked(value, kind, leaf)

    def _leaf(self, name: str, values: torch.Tensor, gradients: torch.Tensor) -> nn.Parameter:
        leaf = self._leaves[name] = nn.Parameter(values)
        leaf.grad = gradients
        return leaf

    def _packed(self, owner: str, key: str, value: Any) -> tuple[str, torch.Tensor]:
        kind, packed = type(value).__name__, value
        if isinstance(value, torch.Tensor):
            is_beside = value.device.type == "cpu" and self._is_on_gpu
            kind, packed = "cpu" if is_beside else "tensor", value.detach()
        elif value is None:
            kind, packed = "none", torch.zeros(1)
        elif kind in _NUMBERS:
            packed = torch.tensor(value, dtype=_NUMBERS[kind])
        else:
            raise TarmacError(
                f"{self._spec.name} keeps {key!r} of {owner} as a {kind}, which a checkpoint "
                "cannot hold",
                hint="Keep numbers and tensors in its state.",
            )
        return _SEPARATOR.join((owner, key, kind)), packed

    @property
    def _is_on_gpu(self) -> bool:
        return next(iter(self._leaves.values())).is_cuda

    def _check_places(self) -> None:
        moved = [
            name for name, leaf in self._leaves.items() if leaf.data_ptr() != self._places[name]
        ]
        if moved:
            raise TarmacError(
                f"{self._spec.name} has replaced the tensor of {moved[0]}",
                hint="Change parameters in place: p.add_(update).",
            )


def _unpacked(value: torch.Tensor, kind: str, leaf: nn.Parameter) -> Any:
    if kind == "none":
        return None
    if kind in _NUMBERS:
        return value.item()
    if kind == "cpu":
        return value.clone()
    if value.shape == leaf.shape:
        # Keep the parameter's memory order, so that sums over the tensor give the same bits.
        return torch.empty_like(leaf, dtype=value.dtype, requires_grad=False).copy_(value)
    return value.to(leaf.device, copy=True)
