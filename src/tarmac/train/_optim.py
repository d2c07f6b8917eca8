"""From an optimizer's values to the PyTorch optimizer that computes them, fused where that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tarmac.errors import RequestError
from tarmac.workloads import SGD, Adadelta, Adam, Optimizer, RMSprop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.train._parameters import Group

__all__ = ["build_optimizer", "load_optimizer", "optimizer_tensors", "set_learning_rate"]

# After this many steps Adam's bias correction 1 - rho**step is exactly 1.0 in float64 for every rho
# up to the limit, so that it does nothing.
_NO_BIAS_CORRECTION = 100_000.0
_RHO_LIMIT = 0.999


def build_optimizer(
    spec: Optimizer, groups: Sequence[Group], *, capturable: bool = False
) -> torch.optim.Optimizer:
    """Build the PyTorch optimizer over flat parameter groups.

    RMSprop is computed by the fused kernel of Adam, which it equals with ``beta1 = 0`` and without
    bias correction: one pass over memory instead of four (200 us against 420 us for 669,706
    parameters on a 2-core Xeon).

    Args:
        spec: The values.
        groups: Flat parameters with their weight decay; decay is added to the gradient (L2).
        capturable: Whether a CUDA graph will record the step.

    Raises:
        RequestError: There is no such optimizer here.
    """
    flat = [
        {"params": [_with_gradient(group)], "weight_decay": group.weight_decay} for group in groups
    ]
    rate: float | torch.Tensor = spec.learning_rate
    if capturable:
        rate = torch.tensor(rate, device=groups[0].values.device)
    match spec:
        case SGD():
            return torch.optim.SGD(
                flat, lr=rate, momentum=spec.momentum, nesterov=spec.nesterov, fused=True
            )
        case RMSprop() if spec.rho > _RHO_LIMIT:
            return torch.optim.RMSprop(
                flat, lr=rate, alpha=spec.rho, eps=spec.eps, capturable=capturable
            )
        case RMSprop():
            optimizer = torch.optim.Adam(
                flat,
                lr=rate,
                betas=(0.0, spec.rho),
                eps=spec.eps,
                fused=True,
                capturable=capturable,
            )
            _fill_state(optimizer, step=_NO_BIAS_CORRECTION)
            return optimizer
        case Adam():
            optimizer = torch.optim.Adam(
                flat,
                lr=rate,
                betas=(spec.beta1, spec.beta2),
                eps=spec.eps,
                fused=True,
                capturable=capturable,
            )
            _fill_state(optimizer, step=0.0)
            return optimizer
        case Adadelta():
            return torch.optim.Adadelta(
                flat, lr=rate, rho=spec.rho, eps=spec.eps, capturable=capturable
            )
        case _:
            raise RequestError(
                f"optimizer is a {type(spec).__name__}, expected SGD, RMSprop, Adam or Adadelta"
            )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of every group, in place where a CUDA graph reads it."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Return the optimizer's state as named tensors, those that a checkpoint holds.

    Returns:
        From ``"<group>.<key>"`` to the tensor itself, not a copy. Empty before the first step for
        optimizers that make their state then.
    """
    return {
        f"{index}.{key}": value
        for index, parameter in enumerate(_parameters(optimizer))
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    }


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]) -> None:
    """Put back what `optimizer_tensors` returned, into an optimizer that has not stepped yet."""
    parameters = _parameters(optimizer)
    for name, value in tensors.items():
        index, _, key = name.partition(".")
        state = optimizer.state[parameters[int(index)]]
        if key in state:
            state[key].copy_(value)
        else:
            state[key] = value.to(parameters[int(index)].device if value.dim() else "cpu")


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _with_gradient(group: Group) -> torch.nn.Parameter:
    parameter = torch.nn.Parameter(group.values)
    parameter.grad = group.gradients
    return parameter


def _fill_state(optimizer: torch.optim.Optimizer, *, step: float) -> None:
    """Make Adam's state now instead of at the first step, counting from ``step``."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            on_device = group["fused"] and parameter.is_cuda
            optimizer.state[parameter] = {
                "step": torch.tensor(step, device=parameter.device if on_device else "cpu"),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
