"""Load, verify and describe datasets by name."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tarmac.data.acquire import fetch
from tarmac.data.base import Dataset, Progress
from tarmac.data.files import find
from tarmac.data.included import INCLUDED
from tarmac.data.own import load_own, own_names, own_record
from tarmac.data.sources import SOURCES
from tarmac.data.store import data_root, parse, parse_file, place, read_text, whole_layout
from tarmac.data.text import Text
from tarmac.errors import RequestError, TarmacError


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetStatus:
    """The description of a dataset and the state of its files.

    Attributes:
        name: Name in commands, such as ``mnist``.
        summary: Description in one line. For a damaged dataset: the error.
        homepage: URL of the authors' page; empty for random data and your own datasets.
        num_train: Number of training samples. None if it cannot be read.
        num_test: Number of test samples. None if it cannot be read.
        sample_shape: Shape of one sample's inputs. None if it cannot be read.
        state: ``embedded`` in Tarmac, ``present``, ``partial``, ``absent`` or ``damaged``.
        path: Directory of the files, whether it exists or not. None for an embedded dataset.
    """

    name: str
    summary: str
    homepage: str
    num_train: int | None
    num_test: int | None
    sample_shape: tuple[int, ...] | None
    state: Literal["embedded", "present", "partial", "absent", "damaged"]
    path: Path | None


@dataclasses.dataclass(frozen=True)
class FileStatus:
    """The result of checking a file; ``reason`` is None if the file is intact."""

    name: str
    reason: str | None

    @property
    def ok(self) -> bool:
        """Whether the file is present and intact."""
        return self.reason is None


def names() -> tuple[str, ...]:
    """Return the names of all datasets."""
    return (*INCLUDED, *SOURCES, *own_names(data_root()))


def load(name: str, root: Path | None = None, *, progress: Progress | None = None) -> Dataset:
    """Load a dataset; download missing files first.

    Args:
        name: Name of a dataset, as `names` lists it.
        root: Directory that holds all datasets. Default `data_root`.
        progress: Callback for the progress of a download. Default None.

    Returns:
        The dataset. Its inputs: ``digits`` uint8 ``[n, 8, 8]``, ``diabetes`` float32 ``[n, 10]``,
        ``noise224`` uint8 ``[n, 3, 224, 224]``, ``mnist`` and ``fashion-mnist`` uint8
        ``[n, 28, 28]``, ``cifar10`` uint8 ``[n, 3, 32, 32]``, ``tinyshakespeare`` int32
        ``[n, 256]``; your own datasets as they were stored.

    Raises:
        RequestError: The dataset is unknown.
        TarmacError: A file is damaged or cannot be downloaded.
    """
    if name in INCLUDED:
        return INCLUDED[name].load()
    if _is_own(name, root):
        return load_own(name, root or data_root())
    source, directory = place(name, root)
    if whole_layout(source, directory) is None:
        fetch(name, root, progress=progress)
    layout = whole_layout(source, directory)
    assert layout is not None, "fetch leaves the first layout whole or raises"
    with _ways_to_mend(name):
        return parse(source, layout, directory)


def load_text(name: str, root: Path | None = None, *, progress: Progress | None = None) -> Text:
    """Load the text of a text dataset, before it is cut into samples.

    Args:
        name: Name of a text dataset. Currently only ``tinyshakespeare``.
        root: Directory that holds all datasets. Default `data_root`.
        progress: Callback for the progress of a download. Default None.

    Raises:
        RequestError: The dataset is unknown or no text.
        TarmacError: The file is damaged or cannot be downloaded.
    """
    source, directory = place(name, root)
    if source.kind != "text":
        raise RequestError(f"dataset {name!r} is not a text")
    if whole_layout(source, directory) is None:
        fetch(name, root, progress=progress)
    with _ways_to_mend(name):
        return read_text(source, directory)


@contextlib.contextmanager
def _ways_to_mend(name: str) -> Iterator[None]:
    try:
        yield
    except TarmacError as error:
        raise TarmacError(
            error.message,
            hint=f"Fetch it again: tarmac data fetch {name}\n"
            f"or bring a good copy: tarmac data add {name} --from DIR",
        ) from error


def verify(name: str, root: Path | None = None) -> list[FileStatus]:
    """Check every file of a dataset; an embedded dataset has none.

    Raises:
        RequestError: The dataset is unknown.
    """
    if name in INCLUDED:
        return []
    if _is_own(name, root):
        return _verify_own(name, root or data_root())
    source, directory = place(name, root)
    layout = whole_layout(source, directory) or source.layouts[0]
    statuses = []
    for file in layout:
        path = find(source, file, [directory])
        reason = None if path is not None else "absent"
        if path is not None:
            try:
                parse_file(source, file, path)
            except TarmacError as error:
                reason = error.message
        statuses.append(FileStatus(file.name, reason))
    return statuses


def describe(root: Path | None = None) -> list[DatasetStatus]:
    """Describe every dataset; no samples are read or downloaded."""
    described = [
        DatasetStatus(
            name=name,
            summary=included.summary,
            homepage=included.homepage,
            num_train=included.num_train,
            num_test=included.num_test,
            sample_shape=included.sample_shape,
            state="embedded",
            path=None,
        )
        for name, included in INCLUDED.items()
    ]
    for source in SOURCES.values():
        directory = (root or data_root()) / source.name
        here = any(find(source, file, [directory]) for lay in source.layouts for file in lay)
        whole = whole_layout(source, directory) is not None
        described.append(
            DatasetStatus(
                name=source.name,
                summary=source.summary,
                homepage=source.homepage,
                num_train=source.num_train,
                num_test=source.num_test,
                sample_shape=source.sample_shape,
                state="present" if whole else "partial" if here else "absent",
                path=directory,
            )
        )
    return described + [
        _describe_own(name, root or data_root()) for name in own_names(root or data_root())
    ]


def _is_own(name: str, root: Path | None) -> bool:
    return name in own_names(root or data_root())


def _describe_own(name: str, root: Path) -> DatasetStatus:
    try:
        record = own_record(name, root)
    except TarmacError as error:
        return DatasetStatus(
            name=name,
            summary=error.message,
            homepage="",
            num_train=None,
            num_test=None,
            sample_shape=None,
            state="damaged",
            path=root / name,
        )
    return DatasetStatus(
        name=name,
        summary=record.summary,
        homepage="",
        num_train=record.train.num_samples,
        num_test=record.test.num_samples,
        sample_shape=record.sample_shape,
        state="present",
        path=root / name,
    )


def _verify_own(name: str, root: Path) -> list[FileStatus]:
    try:
        load_own(name, root)
    except TarmacError as error:
        return [FileStatus("dataset.json", error.message)]
    return [FileStatus(path.name, None) for path in sorted((root / name).glob("*.npy"))]
