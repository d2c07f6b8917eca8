"""Optimizer formulas that take fewer passes over memory than PyTorch's own.

Memory bandwidth limits a step over flat parameters, so the number of passes over them counts. For
669,706 parameters on a 2-core Xeon a pass is 70 to 90 us. bench/population.py measures whole steps.
"""

from __future__ import annotations

import torch
from torch.optim.adam import adam

from tarmac.workloads import Adadelta, Nadam


def adadelta_(
    spec: Adadelta,
    rate: float | torch.Tensor,
    values: torch.Tensor,
    gradients: torch.Tensor,
    *,
    square_avg: torch.Tensor,
    acc_delta: torch.Tensor,
) -> None:
    """Do a step of Adadelta, in 8 passes where PyTorch's takes 11.

    Both averages include ``eps``, as the formula needs them, so one square root of their ratio is
    enough. They start at ``eps``.

    Args:
        spec: Adadelta's hyperparameters, of which it reads ``rho`` and ``eps``.
        rate: Learning rate, which scales the step.
        values: Parameter values, flat; updated in place.
        gradients: Gradients of ``values``, flat; used as scratch memory and overwritten.
        square_avg: The average of squared gradients, plus eps; updated.
        acc_delta: The average of squared steps, plus eps; updated.
    """
    eps = torch.full((), spec.eps, device=values.device)
    work = torch.addcmul(eps, gradients, gradients)
    square_avg.lerp_(work, 1 - spec.rho)
    delta = torch.div(acc_delta, square_avg, out=work).sqrt_().mul_(gradients)
    if isinstance(rate, torch.Tensor):
        values.sub_(delta * rate)
    else:
        values.sub_(delta, alpha=rate)
    torch.addcmul(eps, delta, delta, out=gradients)
    acc_delta.lerp_(gradients, 1 - spec.rho)


def nadam_on_cpu_(
    spec: Nadam,
    rate: float,
    values: torch.Tensor,
    gradients: torch.Tensor,
    *,
    exp_avg: torch.Tensor,
    exp_avg_sq: torch.Tensor,
    mu_product: torch.Tensor,
    step: torch.Tensor,
) -> None:
    """Do a step of Nadam by Adam's fused kernel, in 3 passes where PyTorch's takes 9.

    A Nadam step has the direction ``a g + b m``. Scaled to weights that add up to 1, that direction
    is Adam's average of ``m`` with another ``beta1``.

    Args:
        spec: Nadam's hyperparameters: ``beta1``, ``beta2``, ``eps`` and ``momentum_decay``.
        rate: Learning rate of this step.
        values: Parameter values, flat; updated in place.
        gradients: Gradients of ``values``, flat; left unchanged.
        exp_avg: Moving average ``m`` of the gradients; updated in place.
        exp_avg_sq: Moving average ``v`` of the squared gradients; updated in place.
        mu_product: Product of ``mu_1`` to ``mu_t``, see `Nadam`; updated in place.
        step: Number of steps done before this call; updated in place.
    """
    number = step.item() + 1
    mu, mu_next = (
        spec.beta1 * (1 - 0.5 * 0.96 ** (t * spec.momentum_decay)) for t in (number, number + 1)
    )
    mu_product.mul_(mu)
    product = mu_product.item()
    of_gradient, of_average = (1 - mu) / (1 - product), mu_next / (1 - product * mu_next)
    total = of_gradient + of_average
    beta1 = of_average / total
    exp_avg.lerp_(gradients, 1 - spec.beta1)
    adam(
        [values],
        [gradients],
        [exp_avg.clone()],
        [exp_avg_sq],
        [],
        [step],
        fused=True,
        # The kernel divides by the bias correction of its beta1, which is undone here.
        lr=rate * total * (1 - beta1**number),
        beta1=beta1,
        beta2=spec.beta2,
        eps=spec.eps,
        weight_decay=0.0,
        amsgrad=False,
        maximize=False,
    )
