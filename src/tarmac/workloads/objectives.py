"""Objectives: the loss that a training minimizes, and the metrics that judge it.

Example:
    >>> from tarmac.workloads import Objective, Regression
    >>> Regression("huber").judged_by
    'loss'
    >>> def absolute(output, targets):
    ...     return (output - targets).abs().flatten(1).mean(1)
    >>> Objective(loss=absolute, metrics={"mae": absolute}, judged_by="mae").direction
    'min'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from tarmac.errors import RequestError, unknown_name
from tarmac.workloads.naming import Named

if TYPE_CHECKING:
    import torch

Direction: TypeAlias = Literal["max", "min"]

# A function of the model's output and the targets that returns one value per sample ``[batch]``, of
# any numeric type or bool. It runs without gradients; the mean uses the samples' weights.
Metric: TypeAlias = Callable[[Any, Any], "torch.Tensor"]


@runtime_checkable
class SetMetric(Protocol):
    """A metric of all samples together, such as F1, AUROC or R2, with the API of torchmetrics.

    Attributes:
        dist_sync_fn: Function that takes a tensor of the metric's state and returns those of all
            processes.
        distributed_available_fn: Function that returns whether there are several processes.
    """

    dist_sync_fn: Callable[..., list[torch.Tensor]] | None
    distributed_available_fn: Callable[[], bool] | None

    def update(self, output: Any, targets: Any, /) -> None:
        """Add a batch to the metric's state."""

    def compute(self) -> torch.Tensor:
        """Return the value over all batches since the last reset, a scalar."""
        ...

    def reset(self) -> None:
        """Clear the metric's state."""


# Other fields of a line in ``metrics.jsonl``.
_TAKEN = {
    "at_s",
    "data_wait_s",
    "epoch",
    "learning_rate",
    "loss",
    "memory_bytes",
    "rank_wait_s",
    "samples_per_s",
    "seconds",
    "setup_s",
    "skipped_steps",
    "steps",
}
_PREFIXES = ("test_", "train_", "val_")

_ERRORS = ("mse", "mae", "huber")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective(metaclass=Named):
    """A loss to minimize, metrics, and the metric that judges a training.

    ``loss`` and metrics take ``output`` and ``targets``. ``output`` is the model's output: a tensor
    in the precision of losses (fp32 or fp64), or a tuple or dictionary of such tensors. ``targets``
    is a batch of `Split.targets` on the same device and in their own dtype, but unsigned 16-bit
    integers become int32. A dataset without targets passes the model's inputs.

    Operations that wait for the device (``.item()``, ``if tensor:``) prevent the recording of steps
    as CUDA graphs.

    Attributes:
        loss: Function that returns the loss of each sample ``[batch]``. A scalar counts as the mean
            over the batch; weighted samples need one value per sample.
        metrics: Metrics by name, as in ``metrics.jsonl``: ``NAME``, ``val_NAME``, ``test_NAME``. A
            `SetMetric`, such as those of torchmetrics, is computed only on validation and test
            samples.
        judged_by: Name of the metric that judges a training, or ``loss``. Default ``loss``.
        direction: Whether more of ``judged_by`` is better, ``max``, or less, ``min``. Default
            ``min``.

    Raises:
        RequestError: A metric's name is invalid, ``judged_by`` is no metric, or a metric is neither
            a function nor a `SetMetric`.
    """

    loss: Callable[[Any, Any], torch.Tensor]
    metrics: Mapping[str, Metric | SetMetric] = dataclasses.field(default_factory=dict)
    judged_by: str = "loss"
    direction: Direction = "min"

    def __post_init__(self) -> None:
        for name, metric in self.metrics.items():
            _check_metric(name, metric)
            if not name.isidentifier() or name in _TAKEN or name.startswith(_PREFIXES):
                raise RequestError(
                    f"a metric is named {name!r}, expected letters, digits and underscores, and "
                    f"none of {', '.join(sorted(_TAKEN))} nor a beginning of "
                    f"{', '.join(_PREFIXES)}"
                )
        if self.judged_by not in ("loss", *self.metrics):
            known = dict.fromkeys(("loss", *self.metrics), "")
            raise unknown_name("metric in judged_by", self.judged_by, known)
        if self.direction not in ("max", "min"):
            raise RequestError(f"direction is {self.direction!r}, expected max or min")

    @property
    def sample_metrics(self) -> dict[str, Metric]:
        """The metrics that return one value per sample."""
        return {n: m for n, m in self.metrics.items() if not isinstance(m, SetMetric)}

    @property
    def set_metrics(self) -> dict[str, SetMetric]:
        """The metrics over all samples together."""
        return {n: m for n, m in self.metrics.items() if isinstance(m, SetMetric)}

    @property
    def kind(self) -> str:
        """The class name in records: ``Classification``, ``Regression``, ``NextToken``."""
        return type(self).__name__


class Classification(Objective):
    """Cross-entropy on classes, judged by ``accuracy``, the share of correct predictions.

    The model returns logits ``[batch, num_classes]``. The targets are int64 ``[batch]``, and
    `Dataset.num_classes` must be set. Training applies `Recipe.label_smoothing`.

    Args:
        metrics: Further metrics by name, beside ``accuracy``.
        judged_by: ``accuracy``, ``loss``, or one of ``metrics``.
        direction: Whether more of ``judged_by`` is better, ``max``, or less, ``min``. Default:
            ``min`` for the loss, else ``max``.
    """

    def __init__(
        self,
        *,
        metrics: Mapping[str, Metric | SetMetric] | None = None,
        judged_by: str = "accuracy",
        direction: Direction | None = None,
    ) -> None:
        super().__init__(
            loss=_cross_entropy,
            metrics={"accuracy": _is_right} | dict(metrics or {}),
            judged_by=judged_by,
            direction=direction or ("min" if judged_by == "loss" else "max"),
        )


class Regression(Objective):
    """The error between the model's values and targets of the same shape ``[batch, ...]``.

    A sample's loss is the mean over its values. Targets ``[batch]`` also fit a model that returns
    ``[batch, 1]``. Targets of any dtype are cast to the precision of losses.

    Args:
        loss: ``mse``, ``mae``, or ``huber``: squared up to ``delta`` and linear beyond (Huber,
            1964, "Robust Estimation of a Location Parameter").
        delta: Error at which ``huber`` turns from squared to linear, above 0. Default 1.
        metrics: Metrics by name, which get output and targets unchanged. Default: ``mae``, unless
            it is the loss.
        judged_by: ``loss``, or one of the metrics.
        direction: Whether more of ``judged_by`` is better, ``max``, or less, ``min``. Default
            ``min``.
    """

    def __init__(
        self,
        loss: str = "mse",
        *,
        delta: float = 1.0,
        metrics: Mapping[str, Metric | SetMetric] | None = None,
        judged_by: str = "loss",
        direction: Direction = "min",
    ) -> None:
        if loss not in _ERRORS:
            raise unknown_name("regression loss", loss, dict.fromkeys(_ERRORS, ""))
        if delta <= 0:
            raise RequestError(f"delta is {delta}, expected above 0")
        usual = {} if loss == "mae" else {"mae": partial(_error, "mae", 1.0)}
        super().__init__(
            loss=partial(_error, loss, delta),
            metrics=usual if metrics is None else metrics,
            judged_by=judged_by,
            direction=direction,
        )


class NextToken(Objective):
    """Cross-entropy of the next token, for data such as those of `tarmac.data.windows`.

    The model returns logits ``[batch, length, vocabulary]``; the targets are integers
    ``[batch, length]``. A sample's loss is the mean over its tokens, without ignored tokens. A
    sample with only ignored tokens has loss 0.

    Args:
        ignore_index: Target value of ignored tokens, such as padding. Default -100.
        metrics: Metrics by name. Default: none, because accuracy would read all logits again.
        judged_by: ``loss``, or one of ``metrics``.
        direction: Whether more of ``judged_by`` is better, ``max``, or less, ``min``. Default
            ``min``.
    """

    def __init__(
        self,
        ignore_index: int = -100,
        *,
        metrics: Mapping[str, Metric | SetMetric] | None = None,
        judged_by: str = "loss",
        direction: Direction = "min",
    ) -> None:
        super().__init__(
            loss=partial(_token_loss, ignore_index),
            metrics=dict(metrics or {}),
            judged_by=judged_by,
            direction=direction,
        )
        object.__setattr__(self, "ignore_index", ignore_index)

    ignore_index: int


def _check_metric(name: str, metric: Any) -> None:
    is_collection = hasattr(metric, "update") and not isinstance(metric, SetMetric)
    if isinstance(metric, type) or is_collection or not callable(metric):
        kind = f"the class {metric.__name__}" if isinstance(metric, type) else type(metric).__name__
        raise RequestError(
            f"metric {name} is {kind}, expected a function of output and targets, or one metric "
            "of torchmetrics",
            hint="Create an instance of a class: MulticlassF1Score(num_classes=10). Give each "
            "metric of a collection by its own name.",
        )


def _cross_entropy(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    import torch.nn.functional as F  # noqa: PLC0415 - read by commands that need no framework

    return F.cross_entropy(output, targets, reduction="none")


def _is_right(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return output.argmax(1) == targets


def _error(name: str, delta: float, output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    import torch.nn.functional as F  # noqa: PLC0415 - as above

    wanted = targets.to(output.dtype)
    if wanted.ndim == 1 and output.ndim == 2 and output.shape[1] == 1:
        wanted = wanted.unsqueeze(1)
    if wanted.shape != output.shape:
        raise RequestError(
            f"the model returns {list(output.shape)} where targets of {list(wanted.shape)} are "
            "wanted",
            hint="Its last layer must return a value for each of a sample's targets.",
        )
    if name == "mse":
        errors = F.mse_loss(output, wanted, reduction="none")
    elif name == "mae":
        errors = F.l1_loss(output, wanted, reduction="none")
    else:
        errors = F.huber_loss(output, wanted, reduction="none", delta=delta)
    return errors.flatten(1).mean(1) if errors.ndim > 1 else errors


def _token_loss(ignore_index: int, output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    import torch.nn.functional as F  # noqa: PLC0415 - as above

    if output.ndim != 3 or output.shape[:2] != targets.shape:
        raise RequestError(
            f"the model returns {list(output.shape)} for tokens of {list(targets.shape)}, expected "
            "logits [batch, length, vocabulary]"
        )
    wanted = targets.long()
    losses = F.cross_entropy(
        output.flatten(0, 1), wanted.flatten(), ignore_index=ignore_index, reduction="none"
    )
    counted = (wanted != ignore_index).sum(1).clamp(min=1)
    return losses.view(wanted.shape).sum(1) / counted
