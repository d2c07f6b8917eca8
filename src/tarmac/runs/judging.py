"""What a training is judged by: one of its metrics, and whether more or less of it is better.

Example:
    >>> judged = JudgedBy("mae", "min", among=("mae", "r2"))
    >>> judged.of("val"), judged.best([0.4, 0.2, 0.3])
    ('val_mae', 0.2)
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Direction = Literal["max", "min"]

_SPLITS = {"train": "training", "val": "validation", "test": "test"}

# What these count is the same in every training, whatever that is judged by.
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
    """The metric that says how good a model is.

    Without arguments it is what every training was judged by before others could be named.

    Attributes:
        metric: Its name, without that of a split; ``loss`` for the loss itself.
        direction: Whether the most of it is the best, or the least.
        among: The names of all metrics that are scored beside the loss.
    """

    metric: str = "accuracy"
    direction: Direction = "max"
    among: tuple[str, ...] = ("accuracy",)

    @property
    def more_is_better(self) -> bool:
        """Whether the most is the best."""
        return self.direction == "max"

    @property
    def scores(self) -> tuple[str, ...]:
        """The names of all that is scored, the loss first."""
        return ("loss", *self.among)

    def of(self, split: str) -> str:
        """Return its name on a split: ``train``, ``val`` or ``test``."""
        return f"{split}_{self.metric}"

    def best(self, values: Iterable[float]) -> float | None:
        """Return the best of some values; None where there are none."""
        return (max if self.more_is_better else min)(values, default=None)

    def direction_of(self, name: str) -> Direction | None:
        """Return whether the most or the least of a metric is the best; None where nobody says so.

        Args:
            name: A metric's, with or without that of a split.
        """
        bare = bare_name(name)
        return self.direction if bare == self.metric else _KNOWN.get(bare)


def bare_name(name: str) -> str:
    """Return a metric's name without that of a split: ``accuracy`` of ``val_accuracy``."""
    split, _, rest = name.partition("_")
    return rest if split in _SPLITS and rest else name


def name_words(name: str) -> str:
    """Return a metric's name in words: ``validation accuracy`` for ``val_accuracy``."""
    bare = bare_name(name)
    split = "" if bare == name else f"{_SPLITS[name.partition('_')[0]]} "
    return split + bare.replace("_", " ")
