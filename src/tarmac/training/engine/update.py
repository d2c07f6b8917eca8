"""The update of a step: clipping of the summed gradients, the optimizer, a moving average.

Every replica has the same sum of gradients, so all of them do the same without communication.
Nothing here waits for a device, so a CUDA graph can hold an update.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tarmac.training.engine.loss_scale import LossScale
from tarmac.training.engine.moving_average import MovingAverage
from tarmac.training.engine.optimizers import FlatOptimizer
from tarmac.training.engine.parameter_groups import AnyOptimizer, build_optimizer
from tarmac.training.engine.parameters import Parameters
from tarmac.workloads import Recipe

# Avoids a division by zero for gradients of zeros, as in `torch.nn.utils.clip_grad_norm_`.
NORM_EPS = 1e-6


def build_update(recipe: Recipe, parameters: Parameters) -> AnyUpdate:
    """Build the update of a model's parameters for a recipe.

    Args:
        recipe: Recipe with its optimizers, clipping and moving average.
        parameters: Parameters that are made with the recipe's patterns.

    Returns:
        An `Update`, or the plain optimizer if the recipe needs nothing else.

    Raises:
        RequestError: An optimizer cannot train its parameters.
    """
    optimizer = build_optimizer(recipe, parameters.groups)
    is_plain = not (recipe.clip_norm or recipe.clip_value or recipe.ema)
    if is_plain and parameters.loss_scale is None:
        return optimizer
    return Update(recipe, optimizer, parameters)


class Update:
    """An optimizer with clipping before it and averaging after it.

    Args:
        recipe: The workload's recipe, with clipping and the moving average.
        optimizer: Optimizer that updates the parameters.
        parameters: Parameters with gradients summed over all replicas when `step` is called.
    """

    _can_be_recorded = True

    def __init__(self, recipe: Recipe, optimizer: AnyOptimizer, parameters: Parameters) -> None:
        self._recipe = recipe
        self._optimizer = optimizer
        # The padding between groups is zero, so it does not change a norm.
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
        """Whether `step` accepts the rate as an argument."""
        return isinstance(self._optimizer, FlatOptimizer)

    @property
    def average(self) -> torch.Tensor | None:
        """The average of the parameters' values, if there is one."""
        return None if self._average is None else self._average.values

    @property
    def num_skipped(self) -> int | None:
        """Number of steps skipped for non-finite gradients; None without a loss scale.

        Reading it waits for the device.
        """
        return None if self._loss_scale is None else int(self._loss_scale.num_skipped.item())

    def set_learning_rate(self, *rates: float) -> None:
        """Set the learning rates of `Recipe.learning_rates` from the next step on."""
        self._optimizer.set_learning_rate(*rates)

    @torch.no_grad()
    def step(self, rate: float | torch.Tensor | None = None) -> None:
        """Clip the gradients, update every group's values, and average them.

        Args:
            rate: Learning rate, only with `takes_a_rate`; see `FlatOptimizer.step`.
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
        # A CUDA graph cannot skip the step, so undo it by restoring the old values.
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
        """Return the state's tensors by name, without copies."""
        return self._optimizer.state() | self._own_state()

    def load_state(self, saved: Mapping[str, torch.Tensor]) -> None:
        """Set every tensor of `state`."""
        own = self._own_state()
        self._optimizer.load_state({name: v for name, v in saved.items() if name not in own})
        for name, value in own.items():
            value.copy_(saved[name])

    def template(self, _name: str, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
        """Return an empty tensor for a saved tensor of `state`."""
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
