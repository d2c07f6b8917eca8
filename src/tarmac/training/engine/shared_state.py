"""State that replicas share beside parameters: running statistics and the stop votes.

The state follows the gradients in the one tensor that replicas all-reduce every step. So it costs
no message of its own, and every replica has the same state after every step.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase


class SharedState:
    """A model's floating-point buffers, packed into a tensor to all-reduce, and unpacked again.

    Running means and variances of normalisations become the mean over the replicas. Other buffers
    become those of replica 0. Buffers that are no part of ``state_dict`` count as constants.

    Args:
        model: Model with the buffers to share.
        slots: Tensor ``[size_of(model)]``; its last element counts the votes to stop.
    """

    def __init__(self, model: nn.Module, slots: torch.Tensor) -> None:
        self._slots = slots
        self._averaged: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._copied: list[tuple[torch.Tensor, torch.Tensor]] = []
        start = 0
        for buffer, is_statistic in _buffers(model):
            slot = slots[start : start + buffer.numel()].view(buffer.shape)
            start += buffer.numel()
            (self._averaged if is_statistic else self._copied).append((buffer, slot))

    @staticmethod
    def size_of(model: nn.Module) -> int:
        """Return the number of elements in a model's shared state."""
        return sum(buffer.numel() for buffer, _ in _buffers(model)) + 1

    @property
    def stop_votes(self) -> torch.Tensor:
        """The element ``[]`` that counts the ranks' votes to stop, after the all-reduce."""
        return self._slots[-1]

    def pack(self, replica: int, num_replicas: int) -> None:
        """Pack this replica's part of the sum into the slots."""
        for buffer, slot in self._averaged:
            torch.mul(buffer, 1 / num_replicas, out=slot)
        for buffer, slot in self._copied:
            slot.copy_(buffer) if replica == 0 else slot.zero_()

    def unpack(self) -> None:
        """Set the buffers from the slots, which now hold the sum."""
        for buffer, slot in (*self._averaged, *self._copied):
            buffer.copy_(slot)


def _buffers(model: nn.Module) -> Iterator[tuple[torch.Tensor, bool]]:
    """Yield the floating-point buffers of ``state_dict``, and whether each is a statistic."""
    seen = set[int]()
    for layer in model.modules():
        for name, buffer in layer.named_buffers(recurse=False):
            is_kept = name not in layer._non_persistent_buffers_set
            if is_kept and buffer.is_floating_point() and id(buffer) not in seen:
                seen.add(id(buffer))
                yield buffer, isinstance(layer, _NormBase)
