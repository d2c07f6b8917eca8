"""The parts of a model's input samples, and the conversion of values to parts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarmac.errors import RequestError

_MAX_NAMED = 8


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of each sample, as in the data before any preprocessing.

    Attributes:
        name: Name of the part; empty where a sample is one array.
        shape: Shape of the part in one sample; ``()`` for a number.
        dtype: NumPy type of the data, before any preprocessing.
        features: Names of the values, if the part is a row with named values.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the name, type and shape: ``uint8 [28, 28]``."""
        named = f"{self.name}: " if self.name else ""
        return f"{named}{self.dtype} {list(self.shape)}"

    @property
    def size(self) -> int:
        """The number of values of this part in a sample."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Samples:
    """A batch of samples.

    Attributes:
        columns: Array ``[num_samples, *shape]`` of each part, by name.
        files: File of each sample, if every sample is a file.
    """

    columns: Mapping[str, NDArray[Any]]
    files: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def parts_of(record: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    """Return the parts that a run's record describes."""
    return tuple(
        Part(str(part["name"] or ""), tuple(part["shape"]), np.dtype(str(part["dtype"])))
        for part in record
    )


def misfit(missing: Sequence[str], unknown: Sequence[str]) -> str:
    """Return a message with the missing and the unknown names; empty if all names fit."""
    words = [f"missing: {', '.join(missing[:_MAX_NAMED])}"] if missing else []
    words += [f"not in the model: {', '.join(unknown[:_MAX_NAMED])}"] if unknown else []
    return "; ".join(words)


def join_parts(samples: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Stack single samples to columns."""
    return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}


def as_part(value: Any, part: Part, where: str) -> NDArray[Any]:
    """Convert values to a part's data type, without changing any value.

    Args:
        value: A number, nested lists or an array, for one sample or several.
        part: Expected part; the shape of the result ends with its shape.
        where: Beginning of error messages: the file and the line.

    Raises:
        RequestError: The shape or the kind of values is wrong, or the type cannot hold a value.
    """
    named = f"{where}: {part.name}" if part.name else where
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise RequestError(f"{named}: lists of different lengths, expected {part}") from error
    if array.dtype.kind not in "iufb":
        raise RequestError(f"{named}: {_no_number(value)} is not a number, expected {part}")
    if array.shape[array.ndim - len(part.shape) :] != part.shape or array.ndim < len(part.shape):
        raise RequestError(f"{named}: shape {list(array.shape)}, expected {list(part.shape)}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise RequestError(f"{named}: a value is not finite")
    if array.dtype == part.dtype:
        return array
    if part.dtype.kind == "f":
        return array.astype(part.dtype)
    return _as_whole(array, part, named)


def _as_whole(array: NDArray[Any], part: Part, named: str) -> NDArray[Any]:
    limits = (0, 1) if part.dtype.kind == "b" else _limits(part.dtype)
    low, high = (array.min(), array.max()) if array.size else (0, 0)
    is_whole = array.dtype.kind != "f" or bool((array == np.trunc(array)).all())
    if not is_whole or low < limits[0] or high > limits[1]:
        value_range = f"{low:g} to {high:g}" if low != high else f"{low:g}"
        raise RequestError(
            f"{named}: {value_range}, expected {part.dtype}, whole numbers from {limits[0]} to "
            f"{limits[1]}",
            hint="Give values as in the training data: the model preprocesses them.",
        )
    return array.astype(part.dtype)


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _no_number(value: Any) -> str:
    """Return the first value that is not a number, as written."""
    if isinstance(value, list | tuple):
        for item in value:
            if np.asarray(item).dtype.kind not in "iufb":
                return _no_number(item)
    first = np.asarray(value).reshape(-1)[:1].tolist()
    return repr(first[0] if first else value)
