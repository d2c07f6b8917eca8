"""Checks of a split's columns, weights and classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarmac.data.blocks import check_finite
from tarmac.errors import RequestError

# Signed and unsigned integers, floats, bools; PyTorch has no wider types.
_KINDS = "iufb"
_WIDEST_BYTES = 8


def check_columns(where: str, columns: Mapping[str, Any]) -> None:
    """Raise a RequestError if columns are no arrays of numbers, or differ in samples."""
    if not any(name.partition(".")[0] == "inputs" for name in columns):
        raise RequestError(f"{where}.inputs is an empty dictionary, expected arrays by name")
    num_samples = len(next(iter(columns.values())))
    for name, column in columns.items():
        if not isinstance(column, np.ndarray):
            raise RequestError(
                f"{where}.{name} is a {type(column).__name__}, expected a NumPy array",
                hint="Convert it: numpy.asarray(...)",
            )
        dtype = column.dtype
        is_known = dtype.kind in _KINDS and dtype.isnative and dtype.itemsize <= _WIDEST_BYTES
        if not is_known or not column.ndim:
            raise RequestError(
                f"{where}.{name} are {dtype} of {column.ndim} dimensions, expected "
                "numbers or bools of at least 1, in this machine's byte order",
                hint="Convert them: array.astype(numpy.float32)",
            )
        if not num_samples:
            raise RequestError(f"{where} has no samples, expected at least 1")
        if num_samples != len(column):
            raise RequestError(
                f"{where} has {num_samples} inputs and {len(column)} {name}, "
                "expected as many of each"
            )
        if not column.size:
            raise RequestError(
                f"{where}.{name} are of shape {column.shape[1:]}, which has no values"
            )
        check_finite(f"{where}.{name}", column)


def check_weights(where: str, weights: NDArray[Any]) -> None:
    """Raise a RequestError unless the weights are ``[num_samples]``, at least 0 and not all 0."""
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
    """Raise a RequestError unless targets are integers ``[num_samples]``, 0 to ``num_classes - 1``.

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
            hint="Convert classes to integers: targets.astype(numpy.int64)",
        )
    index = int(targets.argmin() if targets.min() < 0 else targets.argmax())
    if not 0 <= targets[index] < num_classes:
        raise RequestError(
            f"{where}.targets are {targets[index]} in sample {index} (from 0), expected 0 to "
            f"{num_classes - 1}"
        )
    return targets
