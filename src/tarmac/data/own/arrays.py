"""Read datasets from NumPy archives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarmac.data.numpy_files import numpy_errors, read_member
from tarmac.data.own.parts import (
    Part,
    Parts,
    cut_off_test,
    note_on_classes,
    note_on_values,
    numbers,
    targets_of,
    weights_of,
)
from tarmac.errors import TarmacError
from tarmac.files import read_errors

# The names in the datasets of Keras, and Tarmac's own names.
_PUBLISHED = {
    "x_train": ("train", "inputs"),
    "y_train": ("train", "targets"),
    "x_test": ("test", "inputs"),
    "y_test": ("test", "targets"),
    "inputs": ("all", "inputs"),
    "targets": ("all", "targets"),
    "weights": ("all", "weights"),
}
_NAMES = _PUBLISHED | {
    f"{part}_{column}": (part, column)
    for part in ("train", "test")
    for column in ("inputs", "targets", "weights")
}
_EXPECTED = (
    "Expected inputs and targets, x_train, y_train, x_test and y_test, or train_inputs, "
    "train_targets, train_weights, test_inputs and so on."
)


def read_arrays(
    path: Path, *, test_share: float, as_values: bool, as_classes: bool = False
) -> Parts:
    """Read a dataset from an ``.npz``.

    Args:
        path: Path of the archive. Arrays of Python objects are refused.
        test_share: Share of the samples to score if the archive has no test samples. Above 0, below
            1.
        as_values: Whether integer targets are values rather than classes.
        as_classes: Whether whole targets are classes, for any dtype and number of values.

    Raises:
        TarmacError: The archive cannot be read, is damaged, or its arrays do not fit together.
    """
    parts: dict[str, dict[str, NDArray[Any]]] = {}
    num_classes = None
    notes: tuple[str, ...] = ()
    for name, array in _loaded(path).items():
        where = f"{path}: {name}"
        if name not in _NAMES:
            raise TarmacError(f"{where} is not a name of an array known here", hint=_EXPECTED)
        if array.ndim == 0:
            raise TarmacError(f"{where} is one number, expected one entry for each sample")
        part, column = _NAMES[name]
        if column == "targets":
            array, count = targets_of(  # noqa: PLW2901
                array, where, as_values=as_values, as_classes=as_classes
            )
            num_classes = count if num_classes is None else max(num_classes, count or 0)
            notes += _notes_on(array, where, count, as_values=as_values)
        elif column == "weights":
            array = weights_of(array, where)  # noqa: PLW2901
        else:
            array = numbers(array, where)  # noqa: PLW2901
        parts.setdefault(part, {})[column] = array
    for part, columns in parts.items():
        if "inputs" not in columns:
            raise TarmacError(f"{path} has no inputs for {part}", hint=_EXPECTED)
        sizes = {name: len(array) for name, array in columns.items()}
        if len(set(sizes.values())) > 1:
            counts = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
            raise TarmacError(f"{path} has {counts} of {part}, expected as many of each")
    if set(parts) == {"train", "test"}:
        train, test = Part(**parts["train"]), Part(**parts["test"])
    elif len(parts) == 1 and "test" not in parts:
        (columns,) = parts.values()
        whole = Part(**columns)
        learnt, scored = cut_off_test(len(whole.inputs), test_share)
        train, test = whole.taken(learnt), whole.taken(scored)
    else:
        raise TarmacError(
            f"{path} has samples of {' and '.join(sorted(parts)) or 'no kind'}", hint=_EXPECTED
        )
    classes = None if num_classes is None else tuple(map(str, range(num_classes)))
    return Parts(train=train, test=test, classes=classes, notes=notes)


def _notes_on(
    targets: NDArray[Any], where: str, num_classes: int | None, *, as_values: bool
) -> tuple[str, ...]:
    if num_classes is not None:
        return note_on_classes(len(np.unique(targets)), len(targets), where)
    return () if as_values or targets.ndim > 1 else note_on_values(targets, where)


def _loaded(path: Path) -> Mapping[str, NDArray[Any]]:
    with read_errors(path):
        with numpy_errors(f"{path} is no .npz that can be read"):
            archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise TarmacError(f"{path} holds one array, expected an .npz of several")
        with archive:
            return {name: read_member(archive, name, path) for name in archive.files}
