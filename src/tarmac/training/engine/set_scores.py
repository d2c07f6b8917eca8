"""Metrics over all samples together, of which each rank sees a share."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from tarmac.errors import RequestError
from tarmac.training.engine.team import Team
from tarmac.workloads import SetMetric

_REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, AttributeError)


class SetScores:
    """The set metrics of an objective, on copies of its metric objects.

    Args:
        metrics: The workload's set metrics by name; they are copied.
        device: Device of the outputs and targets.
    """

    def __init__(self, metrics: Mapping[str, SetMetric], device: torch.device) -> None:
        # Copies, as several trainings in a process may share the workload's own metrics.
        self._metrics = {name: copy.deepcopy(metric) for name, metric in metrics.items()}
        for metric in self._metrics.values():
            if isinstance(metric, torch.nn.Module):
                metric.to(device)

    def __bool__(self) -> bool:
        return bool(self._metrics)

    def reset(self) -> None:
        """Clear the state of all metrics."""
        for metric in self._metrics.values():
            metric.reset()

    def update(self, output: Any, targets: Any) -> None:
        """Add a batch to the state of all metrics.

        Args:
            output: Model output. ``[batch, 1]`` becomes ``[batch]`` if the targets are so.
            targets: Targets of the batch. Integers become int64, as torchmetrics requires.

        Raises:
            RequestError: A metric refuses the batch.
        """
        output, targets = _as_asked(output, targets)
        for name, metric in self._metrics.items():
            try:
                metric.update(output, targets)
            except _REFUSALS as error:
                raise RequestError(
                    f"metric {name} ({type(metric).__name__}) refuses a batch of output and "
                    f"targets: {error}"
                ) from error

    def compute(self, team: Team) -> dict[str, float]:
        """Return the values over all ranks' samples, and reset; all ranks must call it.

        Raises:
            RequestError: A metric cannot be computed, or is no single number.
        """
        for metric in self._metrics.values():
            _gather_by(metric, team)
        values = {name: _value_of(name, metric) for name, metric in self._metrics.items()}
        # Some metrics keep values of every sample, and training needs that memory.
        self.reset()
        return values

    def check(self, output: Any, targets: Any) -> None:
        """Check that the metrics accept a batch of few samples, and that each is a single number.

        Raises:
            RequestError: A metric refuses the batch, or is no single number.
        """
        self.update(output, targets)
        for name, metric in self._metrics.items():
            # For few samples some metrics raise or warn that they cannot be computed.
            with contextlib.suppress(*_REFUSALS), warnings.catch_warnings(action="ignore"):
                _check_single(name, metric, torch.as_tensor(metric.compute()))


def _gather_by(metric: SetMetric, team: Team) -> None:
    """Make a metric gather its state by the team, whatever PyTorch's own group is."""

    def gather(state: torch.Tensor, group: object = None) -> list[torch.Tensor]:
        del group
        return _alike([own.to(state.device) for own in team.all_gather(state.cpu())])

    # A metric may be made of others: 2 * precision * recall / (precision + recall).
    parts = metric.modules() if isinstance(metric, torch.nn.Module) else [metric]
    for part in parts:
        if isinstance(part, SetMetric):
            part.dist_sync_fn = gather
            part.distributed_available_fn = lambda: team.world_size > 1


def _alike(states: list[torch.Tensor]) -> list[torch.Tensor]:
    """Give empty states of ranks without samples the type and shape of the other ranks' states."""
    known = next((state for state in states if state.numel()), None)
    if known is None:
        return states
    return [state if state.numel() else known.new_empty(0, *known.shape[1:]) for state in states]


def _value_of(name: str, metric: SetMetric) -> float:
    try:
        value = torch.as_tensor(metric.compute())
    except _REFUSALS as error:
        raise RequestError(
            f"metric {name} ({type(metric).__name__}) cannot be computed: {error}"
        ) from error
    _check_single(name, metric, value)
    return float(value)


def _check_single(name: str, metric: SetMetric, value: torch.Tensor) -> None:
    if value.numel() != 1:
        raise RequestError(
            f"metric {name} ({type(metric).__name__}) has shape {list(value.shape)}, expected a "
            "single number",
            hint='For example: average="macro"',
        )


def _as_asked(output: Any, targets: Any) -> tuple[Any, Any]:
    if not isinstance(targets, torch.Tensor):
        return output, targets
    if isinstance(output, torch.Tensor) and output.shape == (*targets.shape, 1):
        output = output.squeeze(-1)
    return output, targets if targets.is_floating_point() else targets.long()
