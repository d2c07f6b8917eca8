"""The state of a training between two steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingState:
    """The state of a training between two steps.

    Attributes:
        workload: Reference by which `find_workload` finds the workload.
        epoch: Index of the current epoch, from 0.
        step: Number of completed steps of the epoch.
        seconds: Seconds already spent on the epoch.
        model: Parameters (fp32) and buffers by name.
        optimizer: State of the optimizer by name.
        random: Generator states by device type.
        totals: float64 sums of losses, metrics and weights in this epoch; `Replica.totals`.
        feed: State of a user's loader, if it has one; see `LoaderFeed.state`.
    """

    workload: str
    epoch: int
    step: int
    seconds: float
    model: Mapping[str, torch.Tensor]
    optimizer: Mapping[str, torch.Tensor]
    random: Mapping[str, torch.Tensor]
    totals: torch.Tensor
    feed: Mapping[str, torch.Tensor] = dataclasses.field(default_factory=dict)
