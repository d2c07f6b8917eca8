"""What targets and weights of a split must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_classes", "check_weights"]


def check_weights(where: str, weights: NDArray[Any]) -> None:
    """Refuse weights that are not float32 ``[num_samples]``, none below 0 and some above."""
    if weights.ndim != 1 or weights.dtype != np.float32:
        raise RequestError(
            f"{where}.weights are {weights.dtype} of {weights.ndim} dimensions, "
            "expected float32 of 1"
        )
    if weights.min() < 0:
        index = int(weights.argmin())
        raise RequestError(
            f"{where}.weights are {weights[index]} in sample {index} (from 0), expected none below "
            "0"
        )
    if not weights.any():
        raise RequestError(f"{where}.weights are all 0, expected some above")


def check_classes(where: str, targets: object, num_classes: int) -> None:
    """Refuse targets that are not int64 ``[num_samples]`` from 0 and below ``num_classes``."""
    if not isinstance(targets, np.ndarray):
        kind = "missing" if targets is None else "a dictionary"
        raise RequestError(f"{where}.targets are {kind}, expected int64 classes")
    if targets.dtype != np.int64 or targets.ndim != 1:
        raise RequestError(
            f"{where}.targets are {targets.dtype} of {targets.ndim} dimensions, expected int64 of "
            "1",
            hint="Of whole numbers make such classes: targets.astype(numpy.int64)",
        )
    index = int(targets.argmin() if targets.min() < 0 else targets.argmax())
    if not 0 <= targets[index] < num_classes:
        raise RequestError(
            f"{where}.targets are {targets[index]} in sample {index} (from 0), expected 0 to "
            f"{num_classes - 1}"
        )
