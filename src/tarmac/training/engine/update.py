"""A step's update: what is done to the sum of all replicas' gradients, the optimizer, an average.

Every replica has the same sum, so all of them do the same without a message, and nothing here waits
for a device: a CUDA graph can hold an update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tarmac.training.engine.moving_average import MovingAverage
from tarmac.training.engine.optimizers import FlatOptimizer
from tarmac.training.engine.parameter_groups import AnyOptimizer, build_optimizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.training.engine.loss_scale import LossScale
    from tarmac.training.engine.parameters import Parameters
    from tarmac.workloads import Recipe

# As `torch.nn.utils.clip_grad_norm_`: keeps gradients of zeros from a division by zero.
NORM_EPS = 1e-6


def build_update(recipe: Recipe, parameters: Parameters) -> AnyUpdate:
    """Make what updates a model's parameters as a recipe asks.

    Args:
        recipe: With its optimizers, and what else happens in a step.
        parameters: Made with the recipe's patterns.

    Returns:
        The optimizer itself where the recipe asks for nothing else.

    Raises:
        RequestError: An optimizer cannot train what it is to train.
    """
    optimizer = build_optimizer(recipe, parameters.groups)
    is_plain = not (recipe.clip_norm or recipe.clip_value or recipe.ema)
    if is_plain and parameters.loss_scale is None:
        return optimizer
    return Update(recipe, optimizer, parameters)


class Update:
    """An optimizer, and what happens before and after it in a step.

    Args:
        recipe: The workload's recipe, with clipping and the moving average.
        optimizer: Optimizer that updates the parameters.
        parameters: Parameters with gradients summed over all replicas when `step` is called.
    """

    _can_be_recorded = True

    def __init__(self, recipe: Recipe, optimizer: AnyOptimizer, parameters: Parameters) -> None:
        self._recipe = recipe
        self._optimizer = optimizer
        # Between groups lie zeros, which change no norm.
        self._gradients = parameters.reduced[: len(parameters.values)]
        self._loss_scale = parameters.loss_scale
        self._values = parameters.values
        self._average: MovingAverage | None = None
        if recipe.ema is not None:
            self._average = MovingAverage(recipe.ema, parameters.values)

    @property
    def takes_rate_tensors(self) -> bool:
        """See `FlatOptimizer.takes_rate_tensors`."""
        return self._optimizer.takes_rate_tensors

    @property
    def takes_a_rate(self) -> bool:
        """Whether `step` can be given the rate."""
        return isinstance(self._optimizer, FlatOptimizer)

    @property
    def average(self) -> torch.Tensor | None:
        """The average of the parameters' values, if there is one."""
        return None if self._average is None else self._average.values

    @property
    def num_skipped(self) -> int | None:
        """Steps left out so far, whose gradients were not finite; None where none would be.

        Reading it waits for the device.
        """
        return None if self._loss_scale is None else int(self._loss_scale.num_skipped.item())

    def set_learning_rate(self, *rates: float) -> None:
        """Use other rates from the next step on: those of `Recipe.learning_rates`."""
        self._optimizer.set_learning_rate(*rates)

    @torch.no_grad()
    def step(self, rate: float | torch.Tensor | None = None) -> None:
        """Clip the gradients, update every group's values, and average them.

        Args:
            rate: See `FlatOptimizer.step`; with `takes_a_rate` alone.
        """
        if self._loss_scale is None:
            self._step(rate)
            return
        has_overflow = self._unscale(self._loss_scale)
        if not (
            self._can_be_recorded and has_overflow.is_cuda and self._optimizer.takes_rate_tensors
        ):
            if not has_overflow.item():
                self._step(rate)
            return
        # A CUDA graph does the same in every step.
        changed = [self._values, *self._optimizer.state().values()]
        if self._average is not None:
            changed += [self._average.values, self._average.num_steps]
        before = [tensor.clone() for tensor in changed]
        self._step(rate)
        for tensor, old in zip(changed, before, strict=True):
            tensor.copy_(torch.where(has_overflow > 0, old, tensor))

    def _unscale(self, scale: LossScale) -> torch.Tensor:
        return scale.unscale([self._gradients])

    def _step(self, rate: float | torch.Tensor | None) -> None:
        self._clip()
        if isinstance(self._optimizer, FlatOptimizer):
            self._optimizer.step(rate)
        else:
            self._optimizer.step()
        if self._average is not None:
            self._average.update()

    def state(self) -> dict[str, torch.Tensor]:
        """Return the state by name, the tensors themselves."""
        return self._optimizer.state() | self._own_state()

    def load_state(self, saved: Mapping[str, torch.Tensor]) -> None:
        """Set every tensor of `state`."""
        own = self._own_state()
        self._optimizer.load_state({name: v for name, v in saved.items() if name not in own})
        for name, value in own.items():
            value.copy_(saved[name])

    def template(self, _name: str, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
        """Return room for a tensor of `state` that was saved."""
        return torch.empty(shape, dtype=dtype)

    def _own_state(self) -> dict[str, torch.Tensor]:
        own: dict[str, torch.Tensor] = {}
        if self._average is not None:
            own |= {"ema.values": self._average.values, "ema.num_steps": self._average.num_steps}
        if self._loss_scale is not None:
            scale = self._loss_scale.state()
            own |= {f"loss_scale.{name}": value for name, value in scale.items()}
        return own

    def _clip(self) -> None:
        recipe, gradients = self._recipe, self._gradients
        if recipe.clip_norm:
            norm = torch.linalg.vector_norm(gradients)
            gradients.mul_((recipe.clip_norm / (norm + NORM_EPS)).clamp_(max=1.0))
        if recipe.clip_value:
            gradients.clamp_(-recipe.clip_value, recipe.clip_value)


AnyUpdate = AnyOptimizer | Update
