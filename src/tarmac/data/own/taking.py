"""Store a user's files as a named dataset."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from tarmac.data.own.arrays import read_arrays
from tarmac.data.own.images import read_folder
from tarmac.data.own.parts import Part
from tarmac.data.own.store import OwnRecord, check_free, staging, write_own
from tarmac.data.own.table_values import TableColumns
from tarmac.data.own.tables import is_table, read_tables
from tarmac.errors import RequestError

# Number of samples to compare at a time.
_BLOCK = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class Taking:
    """The options for turning files into a dataset.

    Attributes:
        test: Path of the test samples, in the same form. None: test samples are split off.
        test_share: Share of the samples to score if no file holds test samples. Above 0, below 1.
            Default 0.2.
        columns: For tables: purpose of the columns. Default: all are inputs.
        size: For images: width and height in pixels, at least 1 each. None keeps their size.
        grey: Whether to keep only the brightness of images. Default False.
        replace: Whether a dataset of the same name is replaced. Default False.
    """

    test: Path | None = None
    test_share: float = 0.2
    columns: TableColumns = dataclasses.field(default_factory=TableColumns)
    size: tuple[int, int] | None = None
    grey: bool = False
    replace: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.test_share < 1:
            raise RequestError(f"test_share is {self.test_share}, expected above 0 and below 1")
        if self.size is not None and min(self.size) < 1:
            raise RequestError(f"size is {self.size[0]}x{self.size[1]}, expected at least 1x1")


def take_over(name: str, origin: Path, taking: Taking, root: Path) -> OwnRecord:
    """Read files, and store them as arrays that can be mapped into memory.

    Args:
        name: Name of the new dataset, for ``--set dataset=`` and `tarmac.data.load`.
        origin: Path of a table (``.csv``, ``.tsv``, ``.parquet``), an archive of arrays (``.npz``),
            or a folder of images.
        taking: Test files, columns, image size and other options.
        root: Directory that holds a subdirectory per dataset.

    Returns:
        The record of the stored dataset.

    Raises:
        RequestError: The name is invalid or taken, or options do not fit the form of the files.
        TarmacError: The files cannot be read as a dataset. Nothing was stored.
    """
    check_free(name, root, replace=taking.replace)
    _check_options(origin, taking)
    with staging(root) as staged:
        if origin.is_dir():
            parts = read_folder(
                origin,
                taking.test,
                staged,
                size=taking.size,
                grey=taking.grey,
                test_share=taking.test_share,
            )
        elif is_table(origin):
            parts = read_tables(origin, taking.test, taking.columns, test_share=taking.test_share)
        else:
            parts = read_arrays(
                origin,
                test_share=taking.test_share,
                as_values=taking.columns.as_values,
                as_classes=taking.columns.as_classes,
            )
        if _are_same(parts.train, parts.test):
            note = "the samples to score are those that are trained on: the score tells nothing"
            parts = dataclasses.replace(parts, notes=(*parts.notes, note))
        return write_own(name, parts, origin, root, staged, replace=taking.replace)


def _are_same(train: Part, test: Part) -> bool:
    """Return whether both parts hold the same inputs in the same order."""
    if train.inputs.shape != test.inputs.shape:
        return False
    # Compare blocks, as images may be mapped from files that are larger than memory.
    return all(
        np.array_equal(train.inputs[start : start + _BLOCK], test.inputs[start : start + _BLOCK])
        for start in range(0, len(train.inputs), _BLOCK)
    )


def _check_options(origin: Path, taking: Taking) -> None:
    """Raise a RequestError for missing files and for options that do not fit their form."""
    if not origin.exists():
        raise RequestError(f"there is no {origin}")
    is_folder = origin.is_dir()
    is_of_columns = not is_folder and is_table(origin)
    if not (is_folder or is_of_columns or origin.suffix.lower() == ".npz"):
        raise RequestError(
            f"{origin} is not in a supported format",
            hint="Expected .csv, .tsv, either also as .gz, .parquet, .npz, or a folder with a "
            "folder of images for each class.\n"
            "Other forms: write an .npz of arrays inputs and targets.",
        )
    columns = taking.columns
    for option, is_given, fits, form in (
        ("--target", columns.targets, is_of_columns, "a table"),
        ("--weights", columns.weights, is_of_columns, "a table"),
        ("--drop", columns.dropped, is_of_columns, "a table"),
        ("--values", columns.as_values, not is_folder, "a table or an .npz"),
        ("--classes", columns.as_classes, not is_folder, "a table or an .npz"),
        ("--categorical", columns.categorical, is_of_columns, "a table"),
        ("--fill", columns.fill, is_of_columns, "a table"),
        ("--size", taking.size, is_folder, "a folder of images"),
        ("--grey", taking.grey, is_folder, "a folder of images"),
        ("--test", taking.test, is_of_columns or is_folder, "a table or a folder of images"),
    ):
        if is_given and not fits:
            raise RequestError(f"{option} is only for {form}, which {origin} is not")
    if columns.as_values and columns.as_classes:
        raise RequestError("expected one of --values and --classes")
    if taking.test is not None:
        if not taking.test.exists():
            raise RequestError(f"there is no {taking.test}")
        if is_folder != taking.test.is_dir() or (is_of_columns and not is_table(taking.test)):
            raise RequestError(f"{taking.test} is of another form than {origin}")
