"""A batch's loss and metrics, added up over its samples by their weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tarmac.errors import RequestError
from tarmac.workloads import Classification, Objective


@dataclasses.dataclass(frozen=True)
class Score:
    """The mean loss and metrics of a model on some samples.

    Attributes:
        loss: Weighted mean of the loss over the samples.
        metrics: Weighted means over the samples, by the objective's metric names.
    """

    loss: float
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, totals: Sequence[float], names: Sequence[str], weight: float) -> Score:
        """Divide sums of losses, then of each metric, by the sum of weights."""
        mean = [total / weight if weight else float("nan") for total in totals]
        return cls(mean[0], dict(zip(names, mean[1:], strict=True)))

    def named(self, prefix: str = "") -> dict[str, float]:
        """Return all values by names such as ``val_loss``, the loss first."""
        return {
            f"{prefix}{name}": value
            for name, value in ({"loss": self.loss} | dict(self.metrics)).items()
        }


class Scoring:
    """The sums of an objective's losses and metrics over a batch, without waiting for a device.

    Args:
        objective: Objective with the loss and the metrics.
        label_smoothing: Label smoothing of a classification's loss, from 0. Default 0.

    Attributes:
        names: Names of the objective's metrics that have a value per sample.
        set_metrics: Metrics over all samples together, by name.
        is_classification: Whether the objective is a `Classification`.
    """

    def __init__(self, objective: Objective, *, label_smoothing: float = 0.0) -> None:
        self._objective = objective
        self._label_smoothing = label_smoothing
        self.is_classification = isinstance(objective, Classification)
        self.names = tuple(objective.sample_metrics)
        self.set_metrics = objective.set_metrics

    def loss(
        self, output: Any, targets: Any, weights: torch.Tensor | None, num_samples: int
    ) -> torch.Tensor:
        """Return the sum of losses, a scalar.

        Args:
            output: Model output, converted by `in_precision`.
            targets: Targets of the batch, as the objective takes them.
            weights: ``[num_samples]``, weight of each sample; None for equal weights.
            num_samples: Number of samples in the batch.

        Raises:
            RequestError: The loss is neither one value per sample nor, without weights, a mean.
        """
        if self.is_classification:
            reduction = "sum" if weights is None else "none"
            losses = F.cross_entropy(
                output, targets, reduction=reduction, label_smoothing=self._label_smoothing
            )
            return losses if weights is None else (losses * weights).sum()
        losses = self._objective.loss(output, targets)
        _check_tensor("the loss", losses)
        if losses.ndim == 0 and weights is None:
            return losses * num_samples
        _check_shape("the loss", losses, num_samples, is_weighted=weights is not None)
        return losses.sum() if weights is None else (losses * weights).sum()

    def metrics(
        self, output: Any, targets: Any, weights: torch.Tensor | None, num_samples: int
    ) -> list[torch.Tensor]:
        """Return the sum of each metric, as scalars.

        Args:
            output: Model output, as for `loss`, and detached from the graph by `detached`.
            targets: Targets of the batch, as for `loss`.
            weights: ``[num_samples]``, weight of each sample; None for equal weights.
            num_samples: Number of samples in the batch.

        Raises:
            RequestError: A metric does not have one value per sample.
        """
        sums = []
        for name, metric in self._objective.sample_metrics.items():
            values = metric(output, targets)
            _check_tensor(f"metric {name}", values)
            if values.ndim != 1 or len(values) != num_samples:
                _check_shape(f"metric {name}", values, num_samples, is_weighted=True)
            # Sum weights in float64: they are not integers, so fp32 would lose digits.
            if weights is not None:
                sums.append((values * weights).sum(dtype=torch.float64))
            else:
                sums.append(values.sum())
        return sums


def in_precision(output: Any, dtype: torch.dtype) -> Any:
    """Return a model's output, with floating-point tensors in the precision of the loss."""
    if isinstance(output, torch.Tensor):
        return output.to(dtype) if output.is_floating_point() else output
    if isinstance(output, Mapping):
        return {name: in_precision(value, dtype) for name, value in output.items()}
    if isinstance(output, tuple | list):
        return tuple(in_precision(value, dtype) for value in output)
    return output


def detached(output: Any) -> Any:
    """Return a model's output, detached from the graph."""
    if isinstance(output, torch.Tensor):
        return output.detach()
    if isinstance(output, Mapping):
        return {name: detached(value) for name, value in output.items()}
    if isinstance(output, tuple | list):
        return tuple(detached(value) for value in output)
    return output


def _check_tensor(what: str, values: object) -> None:
    if not isinstance(values, torch.Tensor):
        raise RequestError(
            f"{what} returns a {type(values).__name__}, expected a tensor with one value of each "
            "sample",
            hint="Return what PyTorch computes as it is, without float(...) or .item().",
        )


def _check_shape(what: str, values: torch.Tensor, num_samples: int, *, is_weighted: bool) -> None:
    if values.ndim == 1 and len(values) == num_samples:
        return
    mean = "" if is_weighted else ", or a scalar that is their mean"
    raise RequestError(
        f"{what} has shape {list(values.shape)} for {num_samples} samples, expected one value of "
        f"each, {[num_samples]}{mean}",
        hint="Average over a sample's own values: losses.flatten(1).mean(1)",
    )
