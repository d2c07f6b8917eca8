"""Early stopping: a training ends once its validation has ceased to improve."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tarmac.runs import Direction, JudgedBy


class Patience:
    """A counter of the epochs since a validation metric was at its best.

    It works as Keras's EarlyStopping with ``min_delta=0`` and without ``restore_best_weights``.

    Args:
        num_epochs: Number of epochs to wait for a better value; None to wait forever.
        metric: Name of the validation metric to watch. Default ``val_loss``.
        direction: ``max`` if higher values are better, ``min`` if lower. Default ``min``.
    """

    def __init__(
        self, num_epochs: int | None, metric: str = "val_loss", direction: Direction = "min"
    ) -> None:
        self._num_epochs = num_epochs
        self._metric = metric
        self._direction = direction
        # Negated for ``min``, so that higher is always better.
        self._best = -math.inf
        self._num_waited = 0

    def see(self, value: float) -> None:
        """Count an epoch by its value; NaN is never better."""
        signed = value if self._direction == "max" else -value
        self._num_waited = 0 if signed > self._best else self._num_waited + 1
        self._best = max(self._best, signed)

    def see_epoch(self, row: Mapping[str, float]) -> None:
        """Count an epoch by its line of ``metrics.jsonl``, if that has the metric."""
        if self._metric in row:
            self.see(row[self._metric])

    @property
    def is_over(self) -> bool:
        """Whether the training should stop."""
        return self.why_over is not None

    @property
    def why_over(self) -> str | None:
        """The reason why the training should stop; None to continue."""
        if self._num_epochs is None or self._num_waited < self._num_epochs:
            return None
        plural = "" if self._num_epochs == 1 else "s"
        moved = "risen" if self._direction == "max" else "fallen"
        return f"{self._metric} has not {moved} for {self._num_epochs} epoch{plural}"


def patience_of(
    num_epochs: int | None, judged: JudgedBy, legacy_metric: str | None = None
) -> Patience:
    """Return the patience of a training, by the metric that judges it, on held-out data.

    Args:
        num_epochs: Number of epochs to wait for a better value; None to wait forever.
        judged: Metric and direction by which the training is judged.
        legacy_metric: Metric that runs of earlier versions watch instead; None for none.
    """
    if legacy_metric is not None:
        return Patience(num_epochs, f"val_{legacy_metric}")
    return Patience(num_epochs, judged.of("val"), judged.direction)
