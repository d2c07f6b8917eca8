"""Scores samples that are not trained on: resident where they fit, and recorded on a GPU."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from tarmac.training.engine.recorder import NUM_CALLS_UNTIL_RECORDED, Graphed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    from tarmac.data import Split
    from tarmac.workloads import Recipe

__all__ = ["Evaluation"]

_SMALLEST_BATCH = 1000

# A GPU takes more samples at a time, up to so many input values: all 10,000 of MNIST's test set.
_MAX_VALUES = 2**23

# What is trained on has been given its place; of the rest this may take some.
_RESIDENT_SHARE = 0.25

# So many ranges are kept on the device: validation and test.
_MAX_RESIDENT = 2


class Evaluation:
    """A model's score on ranges of samples.

    Args:
        model: On its device.
        recipe: How its inputs are made.
        device: Where it computes.
        dtype: Of the losses; the inputs are of the same type, but for ``bf16``.
        bf16: Whether matrix products are.
        keeps: Whether samples may stay on the device.
    """

    def __init__(
        self,
        model: nn.Module,
        recipe: Recipe,
        device: torch.device,
        *,
        dtype: torch.dtype,
        bf16: bool,
        keeps: bool,
    ) -> None:
        self._model = model
        self._device = device
        self._keeps = keeps and device.type == "cuda"
        self._resident: dict[tuple[int, int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        self._totals = torch.zeros(2, dtype=torch.float64, device=device)
        self._add_score: Callable[..., None] = partial(
            _add_score, model, recipe, self._totals, dtype=dtype, bf16=bf16
        )
        if device.type == "cuda":
            self._add_score = Graphed(self._add_score, device)

    @torch.no_grad()
    def run(
        self, split: Split, start: int, stop: int, after_batch: Callable[[], None]
    ) -> torch.Tensor:
        """Score a range of samples.

        Args:
            split: The samples.
            start: The first.
            stop: The one after the last.
            after_batch: Called after each batch.

        Returns:
            float64 ``[2]`` on the device: the sum of losses and of right answers.
        """
        self._model.eval()
        self._totals.zero_()
        for inputs, targets in self._batches(split, start, stop):
            self._add_score(inputs, targets)
            after_batch()
        return self._totals.clone()

    @torch.no_grad()
    def warm_up(self, split: Split, start: int, stop: int) -> None:
        """Bring a range to the device where it fits, and record batches of every size it has."""
        self._model.eval()
        by_size = {
            len(targets): (inputs, targets) for inputs, targets in self._batches(split, start, stop)
        }
        for inputs, targets in by_size.values():
            for _ in range(NUM_CALLS_UNTIL_RECORDED):
                self._add_score(inputs, targets)

    def _batches(
        self, split: Split, start: int, stop: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        batch_size = _SMALLEST_BATCH
        if self._device.type == "cuda":
            batch_size = max(batch_size, _MAX_VALUES // split.inputs[0].size)
        resident = self._bring(split, start, stop)
        for first in range(start, stop, batch_size):
            last = min(first + batch_size, stop)
            if resident is not None:
                inputs, targets = resident
                yield inputs[first - start : last - start], targets[first - start : last - start]
            else:
                yield self._send(split, first, last)

    def _bring(
        self, split: Split, start: int, stop: int
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Return a range on the device, where it stays; None where it does not fit."""
        key = (id(split), start, stop)
        if key not in self._resident:
            size = split.inputs[start:stop].nbytes + split.targets[start:stop].nbytes
            if not self._keeps or len(self._resident) == _MAX_RESIDENT:
                return None
            if size > _RESIDENT_SHARE * torch.cuda.mem_get_info(self._device)[0]:
                return None
            self._resident[key] = self._send(split, start, stop)
        return self._resident[key]

    def _send(self, split: Split, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        inputs = torch.tensor(split.inputs[start:stop], device=self._device)
        return inputs, torch.tensor(split.targets[start:stop], device=self._device)


def _add_score(
    model: nn.Module,
    recipe: Recipe,
    totals: torch.Tensor,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    *,
    dtype: torch.dtype,
    bf16: bool,
) -> None:
    """Add a batch's losses and right answers to ``totals``."""
    device = inputs.device.type
    taken = recipe.preprocess(inputs, training=False, dtype=torch.bfloat16 if bf16 else dtype)
    with torch.autocast(device, torch.bfloat16, bf16, cache_enabled=False):
        logits = model(taken)
    loss = F.cross_entropy(logits.to(dtype), targets, reduction="sum")
    totals += torch.stack([loss, (logits.argmax(1) == targets).sum()])
