"""The state of a training between two steps."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingState:
    """The state of a training between two steps.

    Attributes:
        workload: Reference by which `find_workload` finds the workload.
        epoch: The epoch under way, from 0.
        step: How many steps of it are done.
        seconds: Time already spent on it.
        model: Parameters (fp32) and buffers by name.
        optimizer: State of the optimizer by name.
        random: Generator states by device type.
        totals: float64: the sums of losses, metrics and weights in this epoch; `Replica.totals`.
        feed: Where a user's loader is that says so; see `LoaderFeed.state`.
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
