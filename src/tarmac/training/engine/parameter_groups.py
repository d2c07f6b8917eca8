"""Several optimizers for one model, each with its own parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tarmac.training.engine.muon import MuonOptimizer
from tarmac.training.engine.optimizers import FlatOptimizer
from tarmac.training.engine.parameters import Group
from tarmac.training.engine.torch_optimizers import PyTorchOptimizer
from tarmac.workloads import Muon, Optimizer, Recipe, TorchOptimizer


def build_optimizer(recipe: Recipe, groups: Sequence[Group]) -> AnyOptimizer:
    """Build the optimizer of a recipe.

    Args:
        recipe: Recipe of the training, with its optimizer and parameter groups.
        groups: Groups of `Parameters`, made with the recipe's patterns of parameter names.

    Raises:
        RequestError: An optimizer cannot train its parameters.
    """
    if not recipe.parameter_groups:
        return _build(recipe.optimizer, groups)
    own = (group.optimizer for group in recipe.parameter_groups.values())
    return GroupedOptimizer((recipe.optimizer, *own), groups)


class GroupedOptimizer:
    """An optimizer that updates each parameter by the optimizer of its group.

    Args:
        specs: The recipe's optimizer, then each parameter group's.
        groups: Flat groups; ``owner`` is the index in ``specs`` of a group's optimizer.
    """

    def __init__(self, specs: Sequence[Optimizer], groups: Sequence[Group]) -> None:
        owners = sorted({group.owner for group in groups})
        self._parts = {
            owner: _build(specs[owner], [group for group in groups if group.owner == owner])
            for owner in owners
        }

    @property
    def takes_rate_tensors(self) -> bool:
        """Whether a CUDA graph of `step` reads the latest rates."""
        return all(part.takes_rate_tensors for part in self._parts.values())

    def set_learning_rate(self, *rates: float) -> None:
        """Set the learning rates of `Recipe.learning_rates` from the next step on."""
        for owner, part in self._parts.items():
            part.set_learning_rate(rates[owner])

    def step(self) -> None:
        """Update every group's values."""
        for part in self._parts.values():
            part.step()

    def state(self) -> dict[str, torch.Tensor]:
        """Return the state's tensors by name, without copies."""
        return {
            f"{owner}.{name}": value
            for owner, part in self._parts.items()
            for name, value in part.state().items()
        }

    def load_state(self, saved: Mapping[str, torch.Tensor]) -> None:
        """Set every tensor of `state`."""
        for owner, part in self._parts.items():
            prefix = f"{owner}."
            own = {name: value for name, value in saved.items() if name.startswith(prefix)}
            part.load_state({name.removeprefix(prefix): value for name, value in own.items()})


def _build(spec: Optimizer, groups: Sequence[Group]) -> _OneOptimizer:
    match spec:
        case Muon():
            return MuonOptimizer(spec, groups)
        case TorchOptimizer():
            return PyTorchOptimizer(spec, groups)
        case _:
            return FlatOptimizer(spec, groups)


_OneOptimizer = FlatOptimizer | MuonOptimizer | PyTorchOptimizer
AnyOptimizer = _OneOptimizer | GroupedOptimizer
