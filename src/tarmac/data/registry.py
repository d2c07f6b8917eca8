"""The datasets by name: load, verify, describe."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from tarmac.data.acquire import fetch
from tarmac.data.digits import load_digits
from tarmac.data.files import find
from tarmac.data.sources import SOURCES
from tarmac.data.store import data_root, parse, parse_file, place, whole_layout
from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from pathlib import Path

    from tarmac.data.base import Dataset, Progress

__all__ = ["DatasetStatus", "FileStatus", "describe", "load", "names", "verify"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetStatus:
    """A dataset and whether it is here.

    Attributes:
        name: In commands.
        summary: One line.
        homepage: The authors' page.
        num_train: Training samples.
        num_test: Test samples.
        sample_shape: Of one sample.
        state: ``embedded`` in Tarmac, ``present``, ``partial`` or ``absent``.
        path: Where its files are or would be; None for an embedded one.
    """

    name: str
    summary: str
    homepage: str
    num_train: int
    num_test: int
    sample_shape: tuple[int, ...]
    state: Literal["embedded", "present", "partial", "absent"]
    path: Path | None


@dataclasses.dataclass(frozen=True)
class FileStatus:
    """Whether a file is right, and if not, why."""

    name: str
    reason: str | None

    @property
    def ok(self) -> bool:
        """Whether the file is here and right."""
        return self.reason is None


def names() -> tuple[str, ...]:
    """Return the names of all datasets."""
    return ("digits", *SOURCES)


def load(name: str, root: Path | None = None, *, progress: Progress | None = None) -> Dataset:
    """Load a dataset, downloading what is missing.

    Args:
        name: One of `names`.
        root: `data_root` if not given.
        progress: Told how a download goes.

    Returns:
        ``digits`` uint8 ``[n, 8, 8]``, ``mnist`` and ``fashion-mnist`` ``[n, 28, 28]``,
        ``cifar10`` ``[n, 3, 32, 32]``.

    Raises:
        RequestError: There is no such dataset.
        TarmacError: A file is damaged or cannot be had.
    """
    if name == "digits":
        return load_digits()
    source, directory = place(name, root)
    if whole_layout(source, directory) is None:
        fetch(name, root, progress=progress)
    layout = whole_layout(source, directory)
    assert layout is not None, "fetch leaves the first layout whole or raises"
    try:
        return parse(source, layout, directory)
    except TarmacError as error:
        raise TarmacError(
            error.message,
            hint=f"Fetch it again: tarmac data fetch {name}\n"
            f"or bring a good copy: tarmac data add {name} --from DIR",
        ) from error


def verify(name: str, root: Path | None = None) -> list[FileStatus]:
    """Check every file of a dataset; none for one that is embedded.

    Raises:
        RequestError: There is no such dataset.
    """
    if name == "digits":
        return []
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
    """Describe every dataset; nothing is read or downloaded."""
    described = [
        DatasetStatus(
            name="digits",
            summary="small handwritten digits, embedded in Tarmac",
            homepage="https://doi.org/10.24432/C50P49",
            num_train=1438,
            num_test=359,
            sample_shape=(8, 8),
            state="embedded",
            path=None,
        )
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
    return described
