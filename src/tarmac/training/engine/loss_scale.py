"""The scale of the loss in fp16, without which small gradients would be rounded to zero.

The rules are those of PyTorch's GradScaler, by its kernels. A non-finite gradient halves the scale
and skips its step. 2000 steps without one double the scale. Every replica has the same sum of
gradients, so all of them decide the same without communication, and nothing waits for a device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

_FIRST = 2.0**16
_GROWTH = 2.0
_BACKOFF = 0.5
_GROWTH_STEPS = 2000


class LossScale:
    """The factor of the loss, by which its gradients are divided again.

    Args:
        device: Device of the gradients, on which the scale is kept.

    Attributes:
        value: The scale, float32 ``[]``.
        num_skipped: Number of skipped steps so far, int64 ``[]``.
    """

    def __init__(self, device: torch.device) -> None:
        self.value = torch.tensor(_FIRST, device=device)
        self.num_skipped = torch.zeros((), dtype=torch.int64, device=device)
        self._num_good = torch.zeros((), dtype=torch.int32, device=device)
        self._found = torch.zeros((), device=device)

    def unscale(
        self,
        gradients: Sequence[torch.Tensor],
        add_up: Callable[[torch.Tensor], None] | None = None,
    ) -> torch.Tensor:
        """Divide gradients by the scale, and update the scale.

        Args:
            gradients: All gradients, or those of this rank.
            add_up: Function that adds up a tensor over all ranks; needed if each rank has only some
                gradients.

        Returns:
            float32 ``[]``: 1 if any gradient is not finite, else 0.
        """
        self._found.zero_()
        torch._amp_foreach_non_finite_check_and_unscale_(
            [*gradients], self._found, self.value.double().reciprocal().float()
        )
        if add_up is not None:
            add_up(self._found)
            self._found.clamp_(max=1.0)
        torch._amp_update_scale_(
            self.value, self._num_good, self._found, _GROWTH, _BACKOFF, _GROWTH_STEPS
        )
        self.num_skipped += self._found.long()
        return self._found

    def state(self) -> dict[str, torch.Tensor]:
        """Return the state's tensors by name, without copies."""
        return {"value": self.value, "num_good": self._num_good, "num_skipped": self.num_skipped}
