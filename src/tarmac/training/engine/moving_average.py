"""An exponential moving average of flat parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from tarmac.workloads import Ema

# Of the warm-up: d = n / (n + 10).
_SLOWNESS = 10


class MovingAverage:
    """Follows values by the formula of `Ema`, without waiting for a device.

    Args:
        spec: Decay of the average, and the number of steps between two updates.
        values: ``[num_values]``, what is averaged.

    Attributes:
        values: The average, of the same shape; the values themselves until the first averaging.
        num_steps: float64 ``[]``: how many updates it has seen.
    """

    def __init__(self, spec: Ema, values: torch.Tensor) -> None:
        self._spec = spec
        self._followed = values
        self.values = values.clone()
        self.num_steps = torch.zeros((), dtype=torch.float64, device=values.device)

    def update(self) -> None:
        """Take note of values after an update."""
        every = self._spec.every
        self.num_steps += 1
        if not self.values.is_cuda and self.num_steps.item() % every:
            return
        before = torch.floor(self.num_steps / every) - 1
        kept = (before / (before + _SLOWNESS)).clamp_(max=self._spec.decay)
        # A CUDA graph does the same in every step.
        kept = torch.where(self.num_steps % every == 0, kept, 1.0)
        self.values.lerp_(self._followed, (1 - kept).to(self.values.dtype))
