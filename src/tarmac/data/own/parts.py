"""Samples from a user's files before they are stored: columns, classes and weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarmac.errors import RequestError, TarmacError
from tarmac.wording import counted

# Each class takes an entry in a list of names and an output of the model.
_MAX_CLASSES = 1_000_000

# Up to this many distinct values are always accepted as classes, for any number of samples.
_FEW_CLASSES = 20
# A class with fewer samples on average cannot be learned.
_MIN_SAMPLES_PER_CLASS = 5
_MAX_LOOKED_AT = 1_000_000

# A fixed seed, so that the test set is the same on every machine.
_SEED = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """The training samples or the test samples.

    Attributes:
        inputs: Array of the inputs, ``[num_samples, ...]``.
        targets: Array of the targets, ``[num_samples, ...]``. None: no targets.
        weights: Weight of each sample, float32 ``[num_samples]``. None: all weights are equal.
    """

    inputs: NDArray[Any]
    targets: NDArray[Any] | None = None
    weights: NDArray[np.float32] | None = None

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, without those that are None."""
        every = {"inputs": self.inputs, "targets": self.targets, "weights": self.weights}
        return {name: array for name, array in every.items() if array is not None}

    def taken(self, index: NDArray[np.int64]) -> Part:
        """Return the samples at the given indices."""
        return Part(**{name: array[index] for name, array in self.columns.items()})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parts:
    """The samples and names of a dataset that is not stored yet.

    Attributes:
        train: Samples that a model is trained on.
        test: Samples that a model is scored on.
        classes: Names of the classes in the order of their numbers. None: targets are values, or
            there are no targets.
        features: Names of the inputs' columns. Empty: no names.
        left_out: Paths of the folders that were not read, beside those of the two parts.
        notes: Warnings about data that the reader may have interpreted wrongly, one line each.
    """

    train: Part
    test: Part
    classes: tuple[str, ...] | None = None
    features: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def cut_off_test(num_samples: int, share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split samples at random into training and test samples; the seed is fixed.

    Args:
        num_samples: Number of samples to split, at least 2.
        share: Share of the samples to score, above 0 and below 1. Each side gets at least one.

    Returns:
        The ascending indices of the training samples and of the test samples.

    Raises:
        RequestError: There are fewer than two samples.
    """
    if num_samples < 2:
        raise RequestError(
            f"{counted(num_samples, 'sample')}, expected at least 2: one to train on, one to score"
        )
    num_test = min(max(round(num_samples * share), 1), num_samples - 1)
    dealt = np.random.default_rng(_SEED).permutation(num_samples)
    return np.sort(dealt[num_test:]), np.sort(dealt[:num_test])


def numbers(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Return an array in a type that models take: uint8, int32, int64 or float32.

    Args:
        array: Numbers or bools of any shape and dtype.
        where: File and name of the array, for messages.

    Raises:
        TarmacError: The array holds no numbers, a number that is not finite, or an integer
            beyond int64.
    """
    kind = array.dtype.kind
    if kind == "b":
        return array.astype(np.uint8)
    if kind in "iu":
        if array.dtype in (np.uint8, np.int32, np.int64):
            return array
        small = array.dtype.itemsize < 4
        if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise TarmacError(f"{where} holds {array.max()}, which no int64 can hold")
        return array.astype(np.int32 if small else np.int64)
    if kind != "f":
        raise TarmacError(f"{where} is {array.dtype}, expected numbers")
    floats = as_float32(array)
    wrong = ~np.isfinite(floats)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise TarmacError(
            f"{where} holds {array[place]} at sample {place[0]}, expected finite numbers of "
            "float32",
            hint="Leave such samples out, or put a number in its place.",
        )
    return floats


def as_float32(array: NDArray[Any]) -> NDArray[np.float32]:
    """Return numbers as float32; numbers beyond its range become infinite."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def weights_of(array: NDArray[Any], where: str) -> NDArray[np.float32]:
    """Return the weights of samples as float32 ``[num_samples]``.

    Raises:
        TarmacError: The weights are no numbers, not one per sample, or below 0.
    """
    weights = as_float32(numbers(array, where))
    if weights.ndim == 2 and weights.shape[1] == 1:
        weights = weights[:, 0]
    if weights.ndim != 1:
        raise TarmacError(f"{where} is {list(weights.shape)}, expected one number for each sample")
    if weights.size and weights.min() < 0:
        index = int(weights.argmin())
        raise TarmacError(
            f"{where} holds {weights[index]:g} at sample {index}, expected at least 0"
        )
    return weights


def refuse_as_classes(
    num_classes: int, num_samples: int, where: str, *, is_text: bool = False
) -> None:
    """Raise a RequestError if targets have too many distinct values to be classes.

    Args:
        num_classes: Number of distinct values among the targets.
        num_samples: Number of samples that have these targets.
        where: File and name of the targets, for the message.
        is_text: Whether the targets are texts rather than whole numbers.
    """
    if num_classes <= max(_FEW_CLASSES, num_samples / _MIN_SAMPLES_PER_CLASS):
        return
    what = "texts" if is_text else "whole numbers"
    values = "" if is_text else "Use them as values: --values\n"
    raise RequestError(
        f"{where}: {num_classes:,} different {what} in {num_samples:,} samples are too many for "
        "classes",
        hint=f"{values}Use them as classes anyway: --classes",
    )


def note_on_classes(num_classes: int, num_samples: int, where: str) -> tuple[str, ...]:
    """Return a note if whole numbers were taken as so many classes that they may be values."""
    # In a small table, classes with fewer than two samples are doubtful too.
    few = min(_FEW_CLASSES, num_samples / 2)
    if num_classes <= max(few, num_samples**0.5):
        return ()
    return (
        f"{where}: {num_classes:,} different whole numbers in {num_samples:,} samples were taken "
        "as classes; --values takes them as values",
    )


def note_on_values(array: NDArray[Any], where: str) -> tuple[str, ...]:
    """Return a note if the values are few whole numbers, such as 1.0 and 0.0: maybe classes."""
    different = np.unique(array[:_MAX_LOOKED_AT])
    if not len(different) or len(different) > _FEW_CLASSES or len(different) * 2 > len(array):
        return ()
    if not np.array_equal(different, np.floor(different)) or different.min() < 0:
        return ()
    return (
        f"{where}: the {len(different)} different values, all whole, were taken as values; "
        "--classes takes them as classes",
    )


def targets_of(
    array: NDArray[Any], where: str, *, as_values: bool, as_classes: bool = False
) -> tuple[NDArray[Any], int | None]:
    """Return the targets as int64 or float32, and the number of classes if they are classes.

    Integers of one dimension are classes from 0; all other targets are values.

    Args:
        array: Targets as the file has them, ``[num_samples, ...]``.
        where: File and name of the targets, for messages.
        as_values: Whether integers are values too.
        as_classes: Whether whole numbers are classes, for any dtype and number of values.

    Raises:
        RequestError: Integers have too many distinct values, and ``as_classes`` is not set.
        TarmacError: The targets are no numbers, or a class is below 0 or at least 1,000,000.
    """
    targets = numbers(array, where)
    if as_classes and targets.dtype.kind == "f":
        wrong = targets != np.floor(targets)
        if wrong.any():
            place = int(np.argwhere(wrong)[0][0])
            raise TarmacError(
                f"{where} holds {targets[place]} at sample {place}, which is no class"
            )
        targets = targets.astype(np.int64)
    if targets.dtype.kind == "f" or as_values:
        return targets.astype(np.float32, copy=False), None
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if targets.ndim > 1:
        return targets.astype(np.int64), None
    if targets.size and targets.min() < 0:
        raise TarmacError(
            f"{where} holds class {targets.min()} at sample {targets.argmin()}, expected at "
            "least 0",
            hint="For numbers that are not classes: --values.",
        )
    if targets.size and targets.max() >= _MAX_CLASSES:
        raise TarmacError(
            f"{where} holds class {targets.max()} at sample {targets.argmax()}, expected below "
            f"{_MAX_CLASSES:,}",
            hint="For numbers that are not classes: --values.",
        )
    if not as_classes:
        refuse_as_classes(len(np.unique(targets)), len(targets), where)
    return targets.astype(np.int64), int(targets.max()) + 1 if targets.size else None
