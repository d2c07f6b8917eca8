"""The metric that a training is judged by, and whether higher or lower is better.

Example:
    >>> judged = JudgedBy("mae", "min", among=("mae", "r2"))
    >>> judged.of("val"), judged.best([0.4, 0.2, 0.3])
    ('val_mae', 0.2)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Literal

Direction = Literal["max", "min"]

_SPLITS = {"train": "training", "val": "validation", "test": "test"}

# The better direction of these metrics is the same in every training.
_KNOWN: dict[str, Direction] = {
    "loss": "min",
    "accuracy": "max",
    "mae": "min",
    "mse": "min",
    "rmse": "min",
    "samples_per_s": "max",
}


@dataclasses.dataclass(frozen=True)
class JudgedBy:
    """The metric that a model is judged by.

    The defaults are those of every training from before metrics could be named.

    Attributes:
        metric: Name of the metric, without a split's prefix; ``loss`` for the loss itself.
        direction: Whether the highest or the lowest value is the best.
        among: Names of all metrics that are scored beside the loss.
    """

    metric: str = "accuracy"
    direction: Direction = "max"
    among: tuple[str, ...] = ("accuracy",)

    @property
    def more_is_better(self) -> bool:
        """Whether higher values are better."""
        return self.direction == "max"

    @property
    def scores(self) -> tuple[str, ...]:
        """The names of the loss and of all metrics, the loss first."""
        return ("loss", *self.among)

    def of(self, split: str) -> str:
        """Return the metric's name on a split: ``train``, ``val`` or ``test``."""
        return f"{split}_{self.metric}"

    def best(self, values: Iterable[float]) -> float | None:
        """Return the best of some values; None without values."""
        return (max if self.more_is_better else min)(values, default=None)

    def direction_of(self, name: str) -> Direction | None:
        """Return the better direction of a metric; None where it is unknown.

        Args:
            name: Name of a metric, with or without a split's prefix.
        """
        bare = bare_name(name)
        return self.direction if bare == self.metric else _KNOWN.get(bare)


def bare_name(name: str) -> str:
    """Return a metric's name without a split's prefix: ``accuracy`` of ``val_accuracy``."""
    split, _, rest = name.partition("_")
    return rest if split in _SPLITS and rest else name


def name_words(name: str) -> str:
    """Return a metric's name in words: ``validation accuracy`` for ``val_accuracy``."""
    bare = bare_name(name)
    split = "" if bare == name else f"{_SPLITS[name.partition('_')[0]]} "
    return split + bare.replace("_", " ")
