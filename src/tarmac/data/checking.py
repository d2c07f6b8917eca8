"""What targets and weights of a split must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_classes", "check_weights"]


def check_weights(where: str, weights: NDArray[Any]) -> None:
    """Refuse weights that are not numbers ``[num_samples]``, none below 0 and some above."""
    if weights.ndim != 1:
        raise RequestError(
            f"{where}.weights are {weights.dtype} of {weights.ndim} dimensions, "
            "expected numbers of 1"
        )
    if weights.min() < 0:
        index = int(weights.argmin())
        raise RequestError(
            f"{where}.weights are {weights[index]} in sample {index} (from 0), expected none below "
            "0"
        )
    if not weights.any():
        raise RequestError(f"{where}.weights are all 0, expected some above")


def check_classes(where: str, targets: object, num_classes: int) -> NDArray[Any]:
    """Refuse targets that are not whole numbers ``[num_samples]`` from 0 and below ``num_classes``.

    Returns:
        The targets.
    """
    if not isinstance(targets, np.ndarray):
        kind = "missing" if targets is None else "a dictionary"
        raise RequestError(f"{where}.targets are {kind}, expected classes")
    if targets.dtype.kind not in "iub" or targets.ndim != 1:
        raise RequestError(
            f"{where}.targets are {targets.dtype} of {targets.ndim} dimensions, expected integers "
            "of 1",
            hint="Of whole numbers make such classes: targets.astype(numpy.int64)",
        )
    index = int(targets.argmin() if targets.min() < 0 else targets.argmax())
    if not 0 <= targets[index] < num_classes:
        raise RequestError(
            f"{where}.targets are {targets[index]} in sample {index} (from 0), expected 0 to "
            f"{num_classes - 1}"
        )
    return targets
