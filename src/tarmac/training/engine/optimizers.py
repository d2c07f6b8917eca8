"""Optimizers over flat parameter groups, by PyTorch's fused kernels where they exist.

They call PyTorch's functional optimizers rather than its Optimizer classes. On a few flat tensors
the classes' bookkeeping is most of a step's cost, and their first use imports torch._dynamo, which
takes a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.optim.adagrad import adagrad
from torch.optim.adam import adam
from torch.optim.adamax import adamax
from torch.optim.adamw import adamw
from torch.optim.nadam import nadam
from torch.optim.rmsprop import rmsprop
from torch.optim.sgd import sgd

from tarmac.errors import RequestError
from tarmac.training.engine.formulas import adadelta_, nadam_on_cpu_
from tarmac.training.engine.parameters import Group
from tarmac.workloads import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Nadam,
    Optimizer,
    RMSprop,
)

# After this many steps Adam's bias correction 1 - rho**step is exactly 1.0 in float64 for every rho
# up to the limit, so it has no effect.
_NO_BIAS_CORRECTION = 100_000.0
_RHO_LIMIT = 0.999

_STATE_NAMES: Mapping[type[Optimizer], tuple[str, ...]] = {
    SGD: ("momentum_buffer",),
    RMSprop: ("square_avg",),
    Adam: ("exp_avg", "exp_avg_sq"),
    AdamW: ("exp_avg", "exp_avg_sq"),
    Adagrad: ("sum",),
    Adadelta: ("square_avg", "acc_delta"),
    Adamax: ("exp_avg", "exp_inf"),
    Nadam: ("exp_avg", "exp_avg_sq"),
}


class FlatOptimizer:
    """An optimizer that updates flat groups in place, and may overwrite their gradients.

    RMSprop uses the fused kernel of Adam. With ``beta1 = 0`` and without bias correction both are
    the same. That takes one pass over memory instead of four (200 us against 420 us for 669,706
    parameters on a 2-core Xeon). The average of gradients is then the gradient itself, so one
    tensor serves as both.

    Args:
        spec: Optimizer of the recipe, with its hyperparameters and learning rate.
        groups: Flat parameters with their weight decay. The decay is added to the gradient (L2),
            except for AdamW, which subtracts it from the values.

    Raises:
        RequestError: The optimizer is not supported.
    """

    def __init__(self, spec: Optimizer, groups: Sequence[Group]) -> None:
        self._spec = spec
        self._groups = groups
        self._on_cuda = groups[0].values.is_cuda
        # A CUDA graph reads the rate from a fixed address, so the rate is a tensor there. The fused
        # kernels need it in fp32, which is too coarse for fp64.
        self._rate: float | torch.Tensor = spec.learning_rate
        if self._on_cuda and groups[0].values.dtype == torch.float32:
            self._rate = torch.tensor(spec.learning_rate, device=groups[0].values.device)
        self._filled_rate = spec.learning_rate
        first_step = _NO_BIAS_CORRECTION if _is_adam_in_disguise(spec) else 0.0
        self._state = [
            {name: group.values.new_zeros(group.values.shape) for name in _state_names(spec)}
            | {"step": torch.tensor(first_step, device=group.values.device)}
            for group in groups
        ]
        for group, state in zip(groups, self._state, strict=True):
            if isinstance(spec, Nadam):
                state["mu_product"] = torch.ones((), device=group.values.device)
            if isinstance(spec, Adadelta):
                state["square_avg"].fill_(spec.eps)
                state["acc_delta"].fill_(spec.eps)
        self._by_decay = {
            decay: _members(decay, groups, self._state)
            for decay in dict.fromkeys(group.weight_decay for group in groups)
        }

    @property
    def takes_a_rate(self) -> bool:
        """Whether `step` accepts the rate as an argument."""
        return True

    @property
    def takes_rate_tensors(self) -> bool:
        """Whether `step` reads its rate from a tensor, so that a CUDA graph can change the rate."""
        return isinstance(self._rate, torch.Tensor)

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate from the next step on."""
        if rate == self._filled_rate:
            return
        self._filled_rate = rate
        if isinstance(self._rate, torch.Tensor):
            self._rate.fill_(rate)
        else:
            self._rate = rate

    @torch.no_grad()
    def step(self, rate: float | torch.Tensor | None = None) -> None:
        """Update every group's values.

        Args:
            rate: Learning rate of this step; by default the one from `set_learning_rate`. May be a
                tensor, float32 ``[]`` on the device, only with `takes_rate_tensors`.
        """
        usual = self._rate
        self._rate = usual if rate is None else rate
        for decay, members in self._by_decay.items():
            self._step_groups(decay, *members)
        self._rate = usual

    def state(self) -> dict[str, torch.Tensor]:
        """Return the state's tensors by name, without copies."""
        return {
            f"{index}.{name}": value
            for index, state in enumerate(self._state)
            for name, value in state.items()
        }

    def load_state(self, saved: Mapping[str, torch.Tensor]) -> None:
        """Set every tensor of `state`."""
        for name, value in self.state().items():
            value.copy_(saved[name])

    def _step_groups(
        self,
        decay: float,
        values: list[torch.Tensor],
        gradients: list[torch.Tensor],
        slots: Mapping[str, list[torch.Tensor]],
    ) -> None:
        spec = self._spec
        # For several tensors, one call for all is cheaper than one call for each.
        foreach = self._on_cuda or len(values) > 1
        match spec:
            case SGD():
                sgd(
                    values,
                    gradients,
                    [*slots["momentum_buffer"]],
                    fused=True,
                    lr=self._rate,  # type: ignore[arg-type]  # tensors are taken, undeclared
                    momentum=spec.momentum,
                    nesterov=spec.nesterov,
                    dampening=0.0,
                    weight_decay=decay,
                    maximize=False,
                )
            case Adadelta():
                for index, (value, gradient) in enumerate(zip(values, gradients, strict=True)):
                    if decay:
                        gradient.add_(value, alpha=decay)
                    own = {name: slots[name][index] for name in _STATE_NAMES[Adadelta]}
                    adadelta_(spec, self._rate, value, gradient, **own)
            case Adagrad():
                adagrad(
                    values,
                    gradients,
                    slots["sum"],
                    slots["step"],
                    fused=True,
                    lr=self._rate,  # type: ignore[arg-type]  # as above
                    lr_decay=0.0,
                    eps=spec.eps,
                    weight_decay=decay,
                    maximize=False,
                )
            case Adamax():
                adamax(
                    values,
                    gradients,
                    slots["exp_avg"],
                    slots["exp_inf"],
                    slots["step"],
                    foreach=foreach,
                    capturable=self._on_cuda,
                    lr=self._rate,  # type: ignore[arg-type]  # as above
                    beta1=spec.beta1,
                    beta2=spec.beta2,
                    eps=spec.eps,
                    weight_decay=decay,
                )
            case Nadam() if isinstance(self._rate, float) and not self._on_cuda:
                for index, (value, gradient) in enumerate(zip(values, gradients, strict=True)):
                    if decay:
                        gradient.add_(value, alpha=decay)
                    own = {name: tensors[index] for name, tensors in slots.items()}
                    nadam_on_cpu_(spec, self._rate, value, gradient, **own)
            case Nadam():
                nadam(
                    values,
                    gradients,
                    slots["exp_avg"],
                    slots["exp_avg_sq"],
                    slots["mu_product"],
                    slots["step"],
                    foreach=foreach,
                    capturable=self._on_cuda,
                    lr=self._rate,  # type: ignore[arg-type]  # as above
                    beta1=spec.beta1,
                    beta2=spec.beta2,
                    eps=spec.eps,
                    momentum_decay=spec.momentum_decay,
                    weight_decay=decay,
                )
            case RMSprop() if not _is_adam_in_disguise(spec):
                rmsprop(
                    values,
                    gradients,
                    slots["square_avg"],
                    [],
                    [],
                    slots["step"],
                    foreach=foreach,
                    capturable=self._on_cuda,
                    lr=self._rate,  # type: ignore[arg-type]  # as above
                    alpha=spec.rho,
                    eps=spec.eps,
                    weight_decay=decay,
                    momentum=0.0,
                    centered=False,
                )
            case Adam() | AdamW() | RMSprop():
                betas = (0.0, spec.rho) if isinstance(spec, RMSprop) else (spec.beta1, spec.beta2)
                averages = gradients if isinstance(spec, RMSprop) else slots["exp_avg"]
                step = adamw if isinstance(spec, AdamW) else adam
                step(
                    values,
                    gradients,
                    averages,
                    slots["exp_avg_sq"],
                    [],
                    slots["step"],
                    fused=True,
                    lr=self._rate,
                    beta1=betas[0],
                    beta2=betas[1],
                    eps=spec.eps,
                    weight_decay=decay,
                    amsgrad=False,
                    maximize=False,
                )


def _members(
    decay: float, groups: Sequence[Group], states: Sequence[Mapping[str, torch.Tensor]]
) -> tuple[list[torch.Tensor], list[torch.Tensor], dict[str, list[torch.Tensor]]]:
    """Return values, gradients and state of the groups with the same weight decay."""
    chosen = [i for i, group in enumerate(groups) if group.weight_decay == decay]
    slots = {name: [states[i][name] for i in chosen] for name in states[0]}
    return [groups[i].values for i in chosen], [groups[i].gradients for i in chosen], slots


def _is_adam_in_disguise(spec: Optimizer) -> bool:
    return isinstance(spec, RMSprop) and spec.rho <= _RHO_LIMIT


def _state_names(spec: Optimizer) -> tuple[str, ...]:
    if _is_adam_in_disguise(spec):
        return ("exp_avg_sq",)
    if type(spec) in _STATE_NAMES:
        return _STATE_NAMES[type(spec)]
    *others, last = (kind.__name__ for kind in _STATE_NAMES)
    raise RequestError(
        f"optimizer is a {type(spec).__name__}, expected {', '.join(others)} or {last}"
    )
