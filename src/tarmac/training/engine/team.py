"""The team of processes that train together, as seen from one process."""

from __future__ import annotations

from typing import Any, Protocol

import torch


class Team(Protocol):
    """An interface to the processes that train together, each with its rank.

    Attributes:
        rank: Global rank of this process, from 0.
        world_size: Number of processes in the training.
        local_rank: Rank of this process on its machine, from 0.
        seconds_waiting: Seconds that this process has waited for other ranks.
    """

    rank: int
    world_size: int
    local_rank: int
    seconds_waiting: float

    @property
    def is_main(self) -> bool:
        """Whether this process prints and writes for all ranks."""
        ...

    @property
    def can_capture(self) -> bool:
        """Whether a CUDA graph can hold `all_reduce`, on all ranks or on none."""
        ...

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """Replace a tensor by its sum over all ranks; all ranks must call it."""
        ...

    def all_gather(self, value: Any) -> list[Any]:
        """Return every rank's value, by rank; all ranks must call it."""
        ...

    def heartbeat(self) -> None:
        """Record that this process makes progress."""
        ...


class Alone:
    """The team of one process."""

    rank = 0
    world_size = 1
    local_rank = 0
    seconds_waiting = 0.0
    is_main = True
    can_capture = True

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """Leave the tensor unchanged."""

    def all_gather(self, value: Any) -> list[Any]:
        """Return a list of this single value."""
        return [value]

    def heartbeat(self) -> None:
        """Do nothing."""
