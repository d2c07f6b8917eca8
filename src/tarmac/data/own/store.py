"""Store the user's own datasets on disk: a record, and a file per column.

``NAME/dataset.json`` describes the columns. Files such as ``NAME/train.inputs.npy`` hold them and
are mapped into memory.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from tarmac.data.base import Dataset, Split
from tarmac.data.included import INCLUDED
from tarmac.data.numpy_files import numpy_errors
from tarmac.data.own.parts import Part, Parts
from tarmac.data.sources import SOURCES
from tarmac.errors import RequestError, TarmacError
from tarmac.files import (
    StorageError,
    abandoned,
    damaged_record,
    lock_descriptor,
    read_errors,
    read_versioned,
    remove_tree,
    storage_errors,
    sync_directory,
    temporary_directory,
    write_json,
)
from tarmac.wording import counted

_VERSION = 1
_RECORD = "dataset.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class PartRecord(BaseModel):
    """The number of samples and the columns of a part of a dataset."""

    model_config = ConfigDict(frozen=True)

    num_samples: int
    columns: tuple[str, ...]


class OwnRecord(BaseModel):
    """The content of ``dataset.json``.

    Attributes:
        schema_version: Version of the record's layout. Currently 1.
        name: Name of the dataset, also that of its directory.
        origin: Absolute path of the user's file or folder.
        classes: Names of the classes in the order of their numbers. None: targets are values, or
            there are no targets.
        features: Names of the inputs' columns. Empty: no names.
        sample_shape: Shape of one sample's inputs, such as ``(28, 28)``.
        dtype: NumPy name of the inputs' dtype, such as ``float32``.
        train: Samples that a model is trained on.
        test: Samples that a model is scored on.
        left_out: Paths of the folders that were not read, beside those of the two parts.
        notes: Warnings about data that the reader may have interpreted wrongly, one line each.
            Not stored.
    """

    model_config = ConfigDict(frozen=True)

    schema_version: int = _VERSION
    name: str
    origin: str
    classes: tuple[str, ...] | None = None
    features: tuple[str, ...] = ()
    sample_shape: tuple[int, ...]
    dtype: str
    train: PartRecord
    test: PartRecord
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = Field(default=(), exclude=True)

    @property
    def summary(self) -> str:
        """A short description: kind of targets, dtype and origin."""
        if self.classes is not None:
            kind = counted(len(self.classes), "class")
        else:
            kind = "values" if "targets" in self.train.columns else "no targets"
        return f"{kind}, {self.dtype}, from {self.origin}"


def own_names(root: Path) -> tuple[str, ...]:
    """Return the sorted names of the user's own datasets under ``root``; no dataset is loaded.

    If a process was killed while it replaced a dataset, the old dataset gets its name back.
    """
    for replaced in abandoned(root, "old"):
        _give_back(replaced, root)
    return tuple(sorted(path.parent.name for path in root.glob(f"[!.]*/{_RECORD}")))


def own_record(name: str, root: Path) -> OwnRecord:
    """Read the record of a dataset.

    Raises:
        RequestError: The dataset does not exist, or a newer Tarmac wrote it.
        TarmacError: The record is damaged.
    """
    return read_versioned(root / name / _RECORD, OwnRecord, _VERSION, "dataset")


def load_own(name: str, root: Path) -> Dataset:
    """Map a dataset into memory.

    Raises:
        RequestError: The dataset does not exist, or a newer Tarmac wrote it.
        TarmacError: The dataset is damaged.
    """
    return _load(own_record(name, root), root / name)


def check_free(name: str, root: Path, *, replace: bool) -> None:
    """Raise a RequestError if the name is invalid, or taken and ``replace`` is False."""
    if not _NAME.fullmatch(name):
        raise RequestError(
            f"a dataset cannot be named {name!r}",
            hint="Expected at most 64 letters, digits, dots, dashes and underscores, "
            "a letter or digit first.",
        )
    if name in INCLUDED or name in SOURCES:
        raise RequestError(f"{name} is the name of a published dataset: choose another")
    there = root / name
    if there.exists() and not (replace and (there / _RECORD).exists()):
        raise RequestError(
            f"{there} already exists",
            hint="Replace it: --replace" if (there / _RECORD).exists() else None,
        )


@contextlib.contextmanager
def staging(root: Path) -> Iterator[Path]:
    """Yield a temporary directory for a new dataset; remove what is left of it afterwards.

    Leftovers of killed processes are removed too.
    """
    for replaced in abandoned(root, "old"):
        _give_back_or_remove(replaced, root)
    with contextlib.ExitStack() as stack:
        with storage_errors(root):
            root.mkdir(parents=True, exist_ok=True)
            staged = stack.enter_context(temporary_directory(root))
            # Older versions of Tarmac remove every such directory that they can lock.
            descriptor = os.open(staged, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            lock_descriptor(descriptor)
        stack.callback(_give_back_or_remove, staged.with_suffix(".old"), root)
        yield staged


def _give_back(replaced: Path, root: Path) -> bool:
    """Give a replaced dataset its name back; return False if its name is taken or unknown."""
    with contextlib.suppress(TarmacError, OSError):
        name = read_versioned(replaced / _RECORD, OwnRecord, _VERSION, "dataset").name
        if _NAME.fullmatch(name) and not (root / name).exists():
            replaced.rename(root / name)
            return True
    return False


def _give_back_or_remove(replaced: Path, root: Path) -> None:
    if not _give_back(replaced, root):
        remove_tree(replaced)


def column_path(directory: Path, part: str, column: str) -> Path:
    """Return the path of a column's file; ``part`` is ``train`` or ``test``."""
    return directory / f"{part}.{column}.npy"


def write_column(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], rows: Iterable[NDArray[Any]]
) -> None:
    """Write an array as a ``.npy`` file, some rows at a time.

    The file is not mapped into memory: a full disk would kill the process.

    Args:
        path: Path of the ``.npy`` file to write.
        shape: Shape of the whole array, all rows together.
        dtype: Dtype of the file. Rows of other types are converted.
        rows: Arrays of consecutive rows, from the first row on.

    Raises:
        StorageError: The disk lacks space, or the file cannot be written.
    """
    num_bytes = math.prod(shape) * dtype.itemsize
    with storage_errors(path):
        free = shutil.disk_usage(path.parent).free
    if num_bytes > free:
        raise StorageError(
            f"no space left to write {path.name}: it takes {num_bytes / 2**20:,.1f} MiB, and "
            f"{free / 2**20:,.1f} MiB are free under {path.parent.parent}",
            hint="Free some, or let TARMAC_DATA name another place.",
        )
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    # Closing the file writes its buffer, which fails on a full disk.
    with storage_errors(path), path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for some in rows:
            file.write(np.ascontiguousarray(some, dtype).data)
        file.flush()
        os.fsync(file.fileno())


def write_own(
    name: str, parts: Parts, origin: Path, root: Path, staged: Path, *, replace: bool
) -> OwnRecord:
    """Store a dataset completely or not at all.

    Args:
        name: Name of the dataset. `check_free` must have accepted it.
        parts: Training and test samples as the reader returned them.
        origin: Path of the user's file or folder, for the record.
        root: Directory that holds a subdirectory per dataset.
        staged: Directory from `staging`. Columns whose file exists there are not written again.
        replace: Whether a dataset of the same name is replaced.

    Raises:
        RequestError: The arrays do not fit together, or another process has taken the name.
        StorageError: The dataset cannot be written.
    """
    record = OwnRecord(
        name=name,
        origin=str(origin.resolve()),
        classes=parts.classes,
        features=parts.features,
        sample_shape=parts.train.inputs.shape[1:],
        dtype=str(parts.train.inputs.dtype),
        train=_described(parts.train),
        test=_described(parts.test),
        left_out=parts.left_out,
        notes=parts.notes,
    )
    for part, kept in (("train", parts.train), ("test", parts.test)):
        for column, array in kept.columns.items():
            path = column_path(staged, part, column)
            if not path.exists():
                write_column(path, array.shape, array.dtype, [array] if array.size else [])
    write_json(staged / _RECORD, record.model_dump(mode="json"))
    # Loading checks the dataset, so that no dataset is stored that cannot be loaded.
    _load(record, staged)
    check_free(name, root, replace=replace)
    with storage_errors(root / name):
        if replace and (root / name).exists():
            (root / name).replace(staged.with_suffix(".old"))
        staged.replace(root / name)
        sync_directory(root)
    return record


def _load(record: OwnRecord, directory: Path) -> Dataset:
    splits = {}
    for part, kept in (("train", record.train), ("test", record.test)):
        columns = {}
        for column in kept.columns:
            path = column_path(directory, part, column)
            with read_errors(path), numpy_errors(f"{path} is damaged"):
                columns[column] = np.load(path, mmap_mode="r", allow_pickle=False)
            if columns[column].shape[:1] != (kept.num_samples,):
                raise TarmacError(
                    f"{path} is damaged: it is {list(columns[column].shape)}, expected "
                    f"{counted(kept.num_samples, 'sample')}"
                )
        if "inputs" not in columns:
            raise damaged_record(directory / _RECORD, f"{part} has no inputs")
        splits[part] = Split(**columns)
    classes = record.classes or ()
    # Names that are only the classes' numbers carry no information.
    is_named = classes != tuple(map(str, range(len(classes))))
    return Dataset(
        record.name,
        splits["train"],
        splits["test"],
        None if record.classes is None else len(classes),
        features=record.features,
        classes=classes if is_named else (),
    )


def _described(part: Part) -> PartRecord:
    return PartRecord(num_samples=len(part.inputs), columns=tuple(part.columns))
