"""Optimizers as values, with the defaults of PyTorch 2.13; the learning rate has no default.

Keras has other defaults (its RMSprop has ``rho`` 0.9 and ``eps`` 1e-7), so recipes that repeat a
published result set every value.

Example:
    >>> Adam(1e-3)
    Adam(learning_rate=0.001, beta1=0.9, beta2=0.999, eps=1e-08)
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError
from tarmac.workloads.naming import Named

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass(frozen=True)
class Optimizer(metaclass=Named):
    """The base class of all optimizers.

    Attributes:
        learning_rate: Learning rate that the schedule scales, above 0.
    """

    learning_rate: float

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "float" and not isinstance(value, Real):
                raise RequestError(f"{field.name} is {value!r}, expected a number")
        if not self.learning_rate > 0:
            raise RequestError(f"learning_rate is {self.learning_rate}, expected above 0")
        if self.learning_rate == float("inf"):
            raise RequestError("learning_rate is inf, expected a finite number")
        for name in ("momentum", "rho", "beta1", "beta2", "momentum_decay"):
            value = getattr(self, name, 0.0)
            if not 0 <= value < 1:
                raise RequestError(f"optimizer.{name} is {value}, expected at least 0 and below 1")

    @property
    def name(self) -> str:
        """The optimizer's name in records and messages."""
        return type(self).__name__

    @property
    def default_decay(self) -> float:
        """The weight decay of parameters that no pattern of `Recipe.weight_decay` matches."""
        return 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent: ``v = momentum v + g``; ``w -= lr (g + momentum v or v)``."""

    momentum: float = 0.0
    nesterov: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class RMSprop(Optimizer):
    """RMSprop: ``v = rho v + (1 - rho) g^2``; ``w -= lr g / (sqrt(v) + eps)`` (Hinton, 2012)."""

    rho: float = 0.99
    eps: float = 1e-8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Adam with bias correction (Kingma and Ba, arXiv 1412.6980)."""

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101).

    ``w -= lr weight_decay w`` before Adam's step, as in PyTorch: the schedule scales the decay too.

    Attributes:
        weight_decay: Decoupled decay of parameters that match no pattern of `Recipe.weight_decay`,
            at least 0. Patterns set decoupled factors too: ``{"*.bias": 0.0}`` exempts the biases.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.weight_decay >= 0:
            raise RequestError(
                f"optimizer.weight_decay is {self.weight_decay}, expected at least 0"
            )

    @property
    def default_decay(self) -> float:
        """See `Optimizer.default_decay`."""
        return self.weight_decay


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adadelta(Optimizer):
    """Adadelta (Zeiler, arXiv 1212.5701); ``learning_rate`` scales its adaptive step."""

    rho: float = 0.9
    eps: float = 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adagrad(Optimizer):
    """Adagrad: ``s += g^2``; ``w -= lr g / (sqrt(s) + eps)`` (Duchi et al., JMLR 12, 2011)."""

    eps: float = 1e-10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adamax(Optimizer):
    """Adamax (Kingma and Ba, arXiv 1412.6980, section 7.1).

    ``m = beta1 m + (1 - beta1) g``; ``u = max(beta2 u, |g| + eps)``;
    ``w -= lr / (1 - beta1^t) m / u``.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Nadam(Optimizer):
    """Adam with Nesterov momentum (Dozat, ICLR workshop 2016), as in Keras and PyTorch.

    ``m`` and ``v`` are Adam's. ``mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2)``, and ``p_t`` is
    the product of ``mu_1`` to ``mu_t``. In the numerator, the gradient has the factor
    ``(1 - mu_t) / (1 - p_t)``, and ``m`` the factor ``mu_{t+1} / (1 - p_{t+1})``.

    Attributes:
        momentum_decay: Speed at which ``mu_t`` rises to ``beta1``; schedule_decay in Keras.
            Default 0.004.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    momentum_decay: float = 4e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Muon(Optimizer):
    """Muon: orthogonalised momentum (Jordan, kellerjordan.github.io/posts/muon).

    For parameters of two or more dimensions; a filter ``[out, in, height, width]`` is treated as
    the matrix ``[out, in * height * width]``. The momentum is ``v = momentum v + g``. Newton-Schulz
    iterations bring the singular values of ``v`` (or of ``g + momentum v`` with ``nesterov``) near
    1, which gives ``U``. The update is ``W -= lr sqrt(max(1, rows / columns)) U``. Weight decay is
    refused, because the penalty's gradient would be orthogonalised too.

    Attributes:
        momentum: Factor of the accumulated gradients, at least 0 and below 1. Default 0.95.
        nesterov: Whether the newest gradient is added to the momentum once more. Default True.
        iterations: Newton-Schulz iterations, at least 1. Default 5; 3 are enough for short
            trainings of filters.
        fixed_norm: Whether each matrix is scaled to Frobenius norm ``sqrt(rows)`` before every
            update, so that the rate is relative to the weights. For weights before a normalisation,
            whose scale does not matter. Default False.
    """

    momentum: float = 0.95
    nesterov: bool = True
    iterations: int = 5
    fixed_norm: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.iterations < 1:
            raise RequestError(f"optimizer.iterations is {self.iterations}, expected at least 1")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TorchOptimizer(Optimizer):
    """An optimizer class of ``torch.optim``, or your own class with the same interface.

    It updates parameter by parameter and is not recorded in CUDA graphs, so Tarmac's own optimizers
    are faster.

    Attributes:
        kind: Optimizer class, such as ``torch.optim.RAdam``. It is called with parameter groups,
            ``lr`` and ``arguments``, and has ``step()``. Checkpoints store its ``state`` and
            ``param_groups``, which hold tensors and numbers, and nothing else of it.
        arguments: Keyword arguments of the class, without ``lr``. Numbers, texts and bools are
            settings: ``--set optimizer.weight_decay=0.1``.
    """

    kind: type[torch.optim.Optimizer]
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.kind, type):
            raise RequestError(
                f"optimizer.kind is {self.kind!r}, expected a class such as torch.optim.RAdam"
            )
        if _takes_closures(self.kind):
            raise RequestError(
                f"{self.name} needs a closure that computes the loss repeatedly, but a step here "
                "has one gradient, summed over all devices",
                hint="Use an optimizer whose step() can be called without one.",
            )
        if self.name == "torch.optim.SparseAdam":
            raise RequestError(
                f"{self.name} supports only sparse gradients, but the gradients are dense",
                hint="Use torch.optim.Adam, or Tarmac's own Adam.",
            )
        try:
            inspect.signature(self.kind).bind([], lr=self.learning_rate, **self.arguments)
        except TypeError as error:
            raise RequestError(
                f"{self.name} cannot be made with lr, {', '.join(self.arguments) or 'nothing else'}"
                f": {error}"
            ) from error

    @property
    def name(self) -> str:
        """See `Optimizer.name`: ``torch.optim.RAdam``, or the qualified name of another class."""
        is_pytorchs = f"{self.kind.__module__}.".startswith("torch.optim.")
        return f"torch.optim.{self.kind.__name__}" if is_pytorchs else self.kind.__qualname__

    @property
    def default_decay(self) -> float:
        """See `Optimizer.default_decay`: from ``arguments``, or the default of the class."""
        known = inspect.signature(self.kind).parameters.get("weight_decay")
        default = 0.0 if known is None or known.default is known.empty else known.default
        return float(self.arguments.get("weight_decay", default))


def _takes_closures(kind: type) -> bool:
    step = getattr(kind, "step", None)
    if step is None:
        return False
    _, *parameters = inspect.signature(step).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(p.default is p.empty and p.kind not in kinds for p in parameters)


# Optimizers that the fused kernels and the stacks of networks implement too.
PLAIN_OPTIMIZERS = (SGD, RMSprop, Adam, Adadelta, Adagrad, Adamax, Nadam)
