"""Early stopping: a training ends once its validation loss has ceased to fall."""

from __future__ import annotations

import math

__all__ = ["Patience"]


class Patience:
    """Counts the epochs since the validation loss was at its lowest.

    As Keras's EarlyStopping with ``monitor="val_loss"``, ``min_delta=0`` and without
    ``restore_best_weights``.

    Args:
        num_epochs: How many to wait for a lower loss; None for ever.
    """

    def __init__(self, num_epochs: int | None) -> None:
        self._num_epochs = num_epochs
        self._lowest = math.inf
        self._num_waited = 0

    def see(self, val_loss: float) -> None:
        """Take note of an epoch's loss."""
        self._num_waited = 0 if val_loss < self._lowest else self._num_waited + 1
        self._lowest = min(self._lowest, val_loss)

    @property
    def is_over(self) -> bool:
        """Whether the training should stop."""
        return self.why_over is not None

    @property
    def why_over(self) -> str | None:
        """Why the training should stop; None while it should not."""
        if self._num_epochs is None or self._num_waited < self._num_epochs:
            return None
        plural = "" if self._num_epochs == 1 else "s"
        return f"val_loss has not fallen for {self._num_epochs} epoch{plural}"
