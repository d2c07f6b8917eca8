"""Optimizers as numbers for the kernels: one form for all seven optimizers.

With gradient ``g`` (weight decay added), average ``u`` and second moment ``v``, a step is

    u = a u + c g          v = b v + d g^2
    w -= (of_gradient g + of_average u) / (sqrt(v) root + eps)

``of_gradient``, ``of_average`` and ``root`` hold the rate, bias corrections and Nadam's products.
They depend only on the number of the step, so they come from a table with a row for every step. The
table is computed in fp64 and stored in fp32. SGD has no root. Adamax has a maximum in its place,
Adadelta a ratio of roots.

The formulas are those of `tarmac.workloads`. The state is the same as that of `FlatOptimizer`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from tarmac.kernels.network import UnfitNetworkError
from tarmac.workloads import SGD, Adadelta, Adagrad, Adam, Adamax, Nadam, Optimizer, RMSprop

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The kernels' codes of the forms.
_PLAIN, _ROOT, _MAXIMUM, _RATIO = range(4)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """The factors and the state of an optimizer, as the kernels read them.

    Attributes:
        form: Code of the update formula in the kernels, from 0 to 3.
        average: Factors ``a`` and ``c`` of the average.
        moment: Factors ``b`` and ``d`` of the second moment.
        eps: Small constant that keeps divisors above 0.
        average_name: Name of ``u`` in the optimizer's state; None if there is no ``u``.
        moment_name: Name of ``v`` in the optimizer's state; None if there is no ``v``.
        start: Initial value of ``u`` and ``v``.
    """

    form: int
    average: tuple[float, float] = (0.0, 0.0)
    moment: tuple[float, float] = (0.0, 0.0)
    eps: float = 0.0
    average_name: str | None = None
    moment_name: str | None = None
    start: float = 0.0


def rule_of(optimizer: Optimizer) -> Rule:
    """Return an optimizer's rule.

    Raises:
        UnfitNetworkError: The kernels do not support the optimizer.
    """
    match optimizer:
        case SGD(momentum=0.0):
            rule = Rule(form=_PLAIN)
        case SGD():
            average = (optimizer.momentum, 1.0)
            rule = Rule(form=_PLAIN, average=average, average_name="momentum_buffer")
        case RMSprop():
            rule = Rule(
                form=_ROOT,
                moment=_weighted(optimizer.rho),
                eps=optimizer.eps,
                moment_name="square_avg",
            )
        case Adagrad():
            rule = Rule(form=_ROOT, moment=(1.0, 1.0), eps=optimizer.eps, moment_name="sum")
        case Adam() | Nadam():
            rule = Rule(
                form=_ROOT,
                average=_weighted(optimizer.beta1),
                moment=_weighted(optimizer.beta2),
                eps=optimizer.eps,
                average_name="exp_avg",
                moment_name="exp_avg_sq",
            )
        case Adamax():
            rule = Rule(
                form=_MAXIMUM,
                average=_weighted(optimizer.beta1),
                moment=(optimizer.beta2, 1.0),
                eps=optimizer.eps,
                average_name="exp_avg",
                moment_name="exp_inf",
            )
        case Adadelta():
            # Both stored values include eps; see tarmac.training's adadelta_.
            weights = _weighted(optimizer.rho)
            rule = Rule(
                form=_RATIO,
                average=weights,
                moment=weights,
                eps=optimizer.eps,
                average_name="acc_delta",
                moment_name="square_avg",
                start=optimizer.eps,
            )
        case _:
            raise UnfitNetworkError(f"optimizer {type(optimizer).__name__} has no fused kernel")
    return rule


def step_factors(
    optimizer: Optimizer, first_step: int, num_steps: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the update factors of the steps from ``first_step`` on, counted from 0.

    Returns:
        Factors of the learning rate in ``of_gradient`` and ``of_average``, ``[steps, 2]``, and
        ``root``, ``[steps]``.
    """
    number = np.arange(first_step + 1, first_step + num_steps + 1, dtype=np.float64)
    ones, zeros = np.ones(num_steps), np.zeros(num_steps)
    of_gradient, of_average, root = zeros, zeros, ones
    match optimizer:
        case SGD(nesterov=True):
            of_gradient, of_average = ones, ones * optimizer.momentum
        case SGD(momentum=0.0):
            of_gradient = ones
        case SGD():
            of_average = ones
        case Adam():
            of_average = 1 / (1 - optimizer.beta1**number)
            root = _root(optimizer.beta2, number)
        case Adamax():
            of_average = 1 / (1 - optimizer.beta1**number)
        case Nadam():
            mu = _momenta(optimizer, first_step + num_steps + 1)
            product = np.cumprod(mu)
            now = slice(first_step, first_step + num_steps)
            following = slice(first_step + 1, first_step + num_steps + 1)
            of_gradient = (1 - mu[now]) / (1 - product[now])
            of_average = mu[following] / (1 - product[following])
            root = _root(optimizer.beta2, number)
        case _:
            of_gradient = ones
    return np.stack([of_gradient, of_average], axis=1), root


def momentum_product(optimizer: Nadam, num_steps: int) -> float:
    """Return the product of ``mu_1`` to ``mu_t`` after ``num_steps`` steps; see `Nadam`."""
    return float(np.prod(_momenta(optimizer, num_steps)))


def _momenta(optimizer: Nadam, num_steps: int) -> NDArray[np.float64]:
    number = np.arange(1, num_steps + 1, dtype=np.float64)
    mu: NDArray[np.float64] = optimizer.beta1 * (
        1 - 0.5 * 0.96 ** (number * optimizer.momentum_decay)
    )
    return mu


def _weighted(beta: float) -> tuple[float, float]:
    return beta, 1 - beta


def _root(beta2: float, number: NDArray[np.float64]) -> NDArray[np.float64]:
    root: NDArray[np.float64] = 1 / np.sqrt(1 - beta2**number)
    return root
