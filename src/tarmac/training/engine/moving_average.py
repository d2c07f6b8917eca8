"""An exponential moving average of flat parameters."""

from __future__ import annotations

import torch

from tarmac.workloads import Ema

# Constant of the decay's warm-up: d = n / (n + 10).
_SLOWNESS = 10


class MovingAverage:
    """An average that follows values by the formula of `Ema`, without waiting for a device.

    Args:
        spec: Decay of the average, and the number of steps between two updates.
        values: Values to average, ``[num_values]``.

    Attributes:
        values: The average, of the same shape; the values themselves until the first averaging.
        num_steps: Number of calls of `update`, float64 ``[]``.
    """

    def __init__(self, spec: Ema, values: torch.Tensor) -> None:
        self._spec = spec
        self._followed = values
        self.values = values.clone()
        self.num_steps = torch.zeros((), dtype=torch.float64, device=values.device)

    def update(self) -> None:
        """Update the average after a step has updated the values."""
        every = self._spec.every
        self.num_steps += 1
        if not self.values.is_cuda and self.num_steps.item() % every:
            return
        before = torch.floor(self.num_steps / every) - 1
        kept = (before / (before + _SLOWNESS)).clamp_(max=self._spec.decay)
        # A CUDA graph runs the same operations in every step, so a weight of 1 keeps the average.
        kept = torch.where(self.num_steps % every == 0, kept, 1.0)
        self.values.lerp_(self._followed, (1 - kept).to(self.values.dtype))
