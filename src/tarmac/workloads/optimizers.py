"""Optimizers as values, with every number written out.

Keras's and PyTorch's defaults differ (RMSprop's rate is 0.001 in one and 0.01 in the other), and
they change between releases, so no field here has a default.
"""

from __future__ import annotations

import dataclasses

from tarmac.errors import RequestError

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "Adamax",
    "Muon",
    "Nadam",
    "Optimizer",
    "RMSprop",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer:
    """What every optimizer has.

    Attributes:
        learning_rate: The rate that a schedule scales; above 0.
    """

    learning_rate: float

    def __post_init__(self) -> None:
        if not self.learning_rate > 0:
            raise RequestError(f"learning_rate is {self.learning_rate}, expected above 0")
        for name in ("momentum", "rho", "beta1", "beta2", "momentum_decay"):
            value = getattr(self, name, 0.0)
            if not 0 <= value < 1:
                raise RequestError(f"optimizer.{name} is {value}, expected at least 0 and below 1")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent: ``v = momentum v + g``; ``w -= lr (g + momentum v or v)``."""

    momentum: float
    nesterov: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class RMSprop(Optimizer):
    """RMSprop: ``v = rho v + (1 - rho) g^2``; ``w -= lr g / (sqrt(v) + eps)`` (Hinton, 2012)."""

    rho: float
    eps: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Adam with bias correction (Kingma and Ba, arXiv 1412.6980)."""

    beta1: float
    beta2: float
    eps: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adadelta(Optimizer):
    """Adadelta (Zeiler, arXiv 1212.5701); ``learning_rate`` scales its self-chosen step."""

    rho: float
    eps: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adagrad(Optimizer):
    """Adagrad: ``s += g^2``; ``w -= lr g / (sqrt(s) + eps)`` (Duchi et al., JMLR 12, 2011)."""

    eps: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adamax(Optimizer):
    """Adamax (Kingma and Ba, arXiv 1412.6980, section 7.1).

    ``m = beta1 m + (1 - beta1) g``; ``u = max(beta2 u, |g| + eps)``;
    ``w -= lr / (1 - beta1^t) m / u``.
    """

    beta1: float
    beta2: float
    eps: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Nadam(Optimizer):
    """Adam with Nesterov momentum (Dozat, ICLR workshop 2016), as in Keras and PyTorch.

    ``m`` and ``v`` are Adam's. With ``mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2)`` and ``p_t``
    the product of ``mu_1`` to ``mu_t``, the gradient and ``m`` count
    ``(1 - mu_t) / (1 - p_t)`` and ``mu_{t+1} / (1 - p_{t+1})`` in the numerator.

    Attributes:
        momentum_decay: How slowly ``mu_t`` rises to ``beta1``; Keras called it schedule_decay.
    """

    beta1: float
    beta2: float
    eps: float
    momentum_decay: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Muon(Optimizer):
    """Momentum, orthogonalised (Jordan, kellerjordan.github.io/posts/muon).

    For parameters of two dimensions or more; a filter ``[out, in, height, width]`` is taken as the
    matrix ``[out, in * height * width]``. With ``v = momentum v + g``, and ``U`` the singular
    vectors of ``v`` (or of ``g + momentum v`` with ``nesterov``) with singular values near 1, by
    Newton-Schulz iterations: ``W -= lr sqrt(max(1, rows / columns)) U``. Weight decay is refused: a
    penalty's gradient would be orthogonalised with the rest.

    Attributes:
        momentum: Of the gradients.
        nesterov: Whether the newest gradient counts once more.
        iterations: Newton-Schulz iterations; 5 are usual, 3 serve short trainings of filters.
        fixed_norm: Whether each matrix is scaled to Frobenius norm ``sqrt(rows)`` before every
            update, so that the rate is relative to the weights. For weights that a normalisation
            follows, whose scale does not matter.
    """

    momentum: float
    nesterov: bool
    iterations: int
    fixed_norm: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.iterations < 1:
            raise RequestError(f"optimizer.iterations is {self.iterations}, expected at least 1")
