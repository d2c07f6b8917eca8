"""The scale of the loss in fp16, whose gradients would be rounded to zero without one.

The rules are those of PyTorch's GradScaler, by its kernels: a gradient that is not finite halves
the scale and its step is left out; 2000 steps without one double it. Every replica has the same sum
of gradients, so all of them do the same without a message, and nothing here waits for a device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FIRST = 2.0**16
_GROWTH = 2.0
_BACKOFF = 0.5
_GROWTH_STEPS = 2000


class LossScale:
    """What a loss is multiplied with before its gradients are taken, and they are divided by.

    Args:
        device: Device of the gradients, on which the scale is kept.

    Attributes:
        value: float32 ``[]``: the scale.
        num_skipped: int64 ``[]``: how many steps were left out so far.
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
        """Divide gradients by the scale, and choose the next one.

        Args:
            gradients: All of them, or those that this rank has.
            add_up: Adds up a tensor over all ranks, where each has only some gradients.

        Returns:
            float32 ``[]``: 1 where some gradient is not finite, else 0.
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
        """Return the state by name, the tensors themselves."""
        return {"value": self.value, "num_good": self._num_good, "num_skipped": self.num_skipped}
