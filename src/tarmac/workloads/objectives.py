"""What a training makes smaller, and what it is judged by: a loss and metrics.

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

# Given the model's output and the targets, one value of each sample ``[batch]``, of any numeric
# type or bool. It is averaged over the samples by their weights, and computed without gradients.
Metric: TypeAlias = Callable[[Any, Any], "torch.Tensor"]


@runtime_checkable
class SetMetric(Protocol):
    """A metric of all samples together, no mean over them: F1, AUROC, R2. Those of torchmetrics.

    Attributes:
        dist_sync_fn: Given a tensor of its state, returns those of all processes.
        distributed_available_fn: Whether there are several.
    """

    dist_sync_fn: Callable[..., list[torch.Tensor]] | None
    distributed_available_fn: Callable[[], bool] | None

    def update(self, output: Any, targets: Any, /) -> None:
        """Take note of a batch."""

    def compute(self) -> torch.Tensor:
        """Return the value of all that was seen, a scalar."""
        ...

    def reset(self) -> None:
        """Forget what was seen."""


# What else a line of ``metrics.jsonl`` has.
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
    """A loss to make smaller, metrics to look at, and which of them counts.

    ``output`` is what the model returns: a tensor in the precision of losses (fp32, or fp64), or a
    tuple or dictionary of such. ``targets`` are a batch of `Split.targets` on the same device and
    of their own type, with unsigned 16-bit integers as int32; a dictionary where they are one; the
    model's inputs where the data have none.

    What waits for the device (``.item()``, ``if tensor:``) keeps a GPU's steps from being recorded.

    Attributes:
        loss: Returns the loss of each sample ``[batch]``. A scalar is taken for the mean over the
            batch; where samples are weighted there must be one of each.
        metrics: By name, as in ``metrics.jsonl``: ``NAME``, ``val_NAME``, ``test_NAME``. A
            `SetMetric`, as torchmetrics has them, is computed on validation and test alone.
        judged_by: What counts: a metric's name, or ``loss``.
        direction: Whether more of it is better, ``max``, or less, ``min``.

    Raises:
        RequestError: A name that a run's metrics cannot have, or that is none of the metrics'; a
            metric that is neither a function nor a `SetMetric`.
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
        """Those of the metrics that have a value of each sample."""
        return {n: m for n, m in self.metrics.items() if not isinstance(m, SetMetric)}

    @property
    def set_metrics(self) -> dict[str, SetMetric]:
        """Those of the metrics that are of all samples together."""
        return {n: m for n, m in self.metrics.items() if isinstance(m, SetMetric)}

    @property
    def kind(self) -> str:
        """What it is called in records: ``Classification``, ``Regression``, ``NextToken``."""
        return type(self).__name__


class Classification(Objective):
    """Cross-entropy on classes, judged by ``accuracy``, the share of right answers.

    The model returns logits ``[batch, num_classes]``; the targets are int64 ``[batch]``, and
    `Dataset.num_classes` is given. `Recipe.label_smoothing` is added in training.

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
    """The distance of values to those that are wanted: of the same shape ``[batch, ...]``.

    A sample's loss is the mean over its values. Targets ``[batch]`` may be wanted of a model that
    returns ``[batch, 1]``. Targets are taken in the precision of losses, whatever their type.

    Args:
        loss: ``mse``, ``mae``, or ``huber``: squared up to ``delta`` and linear beyond (Huber,
            1964, "Robust Estimation of a Location Parameter").
        delta: Error at which ``huber`` turns from squared to linear, above 0. Default 1.
        metrics: Beside the loss; they get output and targets as they are. By default ``mae``
            where the loss is another.
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
    """Cross-entropy of the token that follows each one, as of `tarmac.data.windows`.

    The model returns logits ``[batch, length, vocabulary]``; the targets are integers
    ``[batch, length]``. A sample's loss is the mean over those of its tokens that count; one of
    which none does has loss 0.

    Args:
        ignore_index: Targets of this value do not count: padding.
        metrics: Beside the loss. There are none by default: accuracy would read all logits again.
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
            hint="Of a class make one: MulticlassF1Score(num_classes=10). Of a collection give "
            "each by its own name.",
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
