"""The datasets by name: load, fetch, add, verify, describe."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import platformdirs
from filelock import FileLock

from tarmac.data._base import Dataset, Progress, Split
from tarmac.data._cifar import parse_binary_batch, parse_python_batch
from tarmac.data._digits import load_digits
from tarmac.data._fetch import UnreachableError, download
from tarmac.data._files import find, read_checked
from tarmac.data._idx import parse_idx
from tarmac.data._sources import SOURCES, DataFile, Source
from tarmac.errors import RequestError, TarmacError, unknown_name
from tarmac.storage import storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "DatasetStatus",
    "FileStatus",
    "add",
    "data_root",
    "describe",
    "fetch",
    "load",
    "names",
    "verify",
]


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
        state: ``embedded`` in a dependency, ``present``, ``partial`` or ``absent``.
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


def data_root() -> Path:
    """Return where datasets lie: ``TARMAC_DATA``, else the user's cache directory."""
    given = os.environ.get("TARMAC_DATA")
    return Path(given) if given else platformdirs.user_cache_path("tarmac") / "data"


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
    source, directory = _place(name, root)
    if _whole_layout(source, directory) is None:
        fetch(name, root, progress=progress)
    layout = _whole_layout(source, directory)
    assert layout is not None, "fetch leaves the first layout whole or raises"
    try:
        return _parse(source, layout, directory)
    except TarmacError as error:
        raise TarmacError(
            error.message,
            hint=f"Fetch it again: tarmac data fetch {name}\n"
            f"or bring a good copy: tarmac data add {name} --from DIR",
        ) from error


def fetch(name: str, root: Path | None = None, *, progress: Progress | None = None) -> Path:
    """Download what is missing or damaged of a dataset. Two processes at once fetch it once.

    ``TARMAC_MIRROR`` names a base URL that is tried first, as ``<base>/<dataset>/<file>``.

    Returns:
        The directory that now holds it.

    Raises:
        RequestError: There is no such dataset, or it needs no download.
        TarmacError: No mirror had it; says what was tried and the ways on.
    """
    source, directory = _place(name, root)
    files = source.layouts[0]
    with _locked(directory):
        if _is_right(source, directory):
            return directory
        try:
            if source.archive is None:
                for file in files:
                    _fetch_file(source, file, directory, progress)
            else:
                _fetch_archive(source, source.archive, directory, progress)
        except UnreachableError as error:
            raise TarmacError(
                f"{name}: {error.message}",
                hint=f"{error.hint}\nTwo ways on: get the files elsewhere (see {source.homepage}) "
                f"and type\n  tarmac data add {name} --from DIR\n"
                "or train on data that needs no download:\n  tarmac train digits-mlp",
            ) from error
    return directory


def add(name: str, origin: Path, root: Path | None = None) -> Path:
    """Take a dataset's files over from a directory, for machines without internet.

    Args:
        name: One of `names` but ``digits``.
        origin: Holds the files, compressed or not, in any published layout, or the archive.
        root: `data_root` if not given.

    Returns:
        The directory that now holds it.

    Raises:
        RequestError: There is no such dataset or directory, or files are missing there.
        TarmacError: A file there is damaged. Nothing was taken over.
    """
    source, directory = _place(name, root)
    if not origin.is_dir():
        raise RequestError(f"{origin} is not a directory")
    with _unpacked(source, origin) as places:
        found = [
            (layout, [find(source, file, places) for file in layout]) for layout in source.layouts
        ]
        layout, paths = max(found, key=lambda pair: sum(path is not None for path in pair[1]))
        missing = [f.name for f, path in zip(layout, paths, strict=True) if path is None]
        if missing:
            raise RequestError(
                f"{origin} lacks {', '.join(missing)} of {name}",
                hint=f"Each may be compressed (.gz). They are described at {source.homepage}",
            )
        present = [path for path in paths if path is not None]
        _check_all(source, layout, present)
        with _locked(directory):
            for file, path in zip(layout, present, strict=True):
                _copy(path, directory / (file.name + (".gz" if path.suffix == ".gz" else "")))
    return directory


def verify(name: str, root: Path | None = None) -> list[FileStatus]:
    """Check every file of a dataset; none for one that is embedded.

    Raises:
        RequestError: There is no such dataset.
    """
    if name == "digits":
        return []
    source, directory = _place(name, root)
    layout = _whole_layout(source, directory) or source.layouts[0]
    statuses = []
    for file in layout:
        path = find(source, file, [directory])
        reason = None if path is not None else "absent"
        if path is not None:
            try:
                _parse_file(source, file, path)
            except TarmacError as error:
                reason = error.message
        statuses.append(FileStatus(file.name, reason))
    return statuses


def describe(root: Path | None = None) -> list[DatasetStatus]:
    """Describe every dataset; nothing is read or downloaded."""
    described = [
        DatasetStatus(
            name="digits",
            summary="small handwritten digits, embedded in scikit-learn",
            homepage="https://scikit-learn.org/stable/datasets/toy_dataset.html",
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
        whole = _whole_layout(source, directory) is not None
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


def _place(name: str, root: Path | None) -> tuple[Source, Path]:
    if name == "digits":
        raise RequestError("digits come with scikit-learn: there is nothing to fetch or add")
    if name not in SOURCES:
        summaries = {"digits": "embedded"} | {n: s.summary for n, s in SOURCES.items()}
        raise unknown_name("dataset", name, summaries)
    return SOURCES[name], (root or data_root()) / name


def _whole_layout(source: Source, directory: Path) -> tuple[DataFile, ...] | None:
    """Return the first layout of which every file is there."""
    for layout in source.layouts:
        if all(find(source, file, [directory]) for file in layout):
            return layout
    return None


def _is_right(source: Source, directory: Path) -> bool:
    layout = _whole_layout(source, directory)
    if layout is None:
        return False
    try:
        _parse(source, layout, directory)
    except TarmacError:
        return False
    return True


def _parse(source: Source, layout: Sequence[DataFile], directory: Path) -> Dataset:
    arrays = []
    for file in layout:
        path = find(source, file, [directory])
        assert path is not None, "a whole layout was asked for"
        arrays.append(_parse_file(source, file, path))
    if source.kind == "idx":
        (train_x,), (train_y,), (test_x,), (test_y,) = arrays
        splits = [Split(train_x, train_y.astype(np.int64)), Split(test_x, test_y.astype(np.int64))]
    else:
        splits = [
            Split(np.concatenate([b[0] for b in part]), np.concatenate([b[1] for b in part]))
            for part in (arrays[:-1], arrays[-1:])
        ]
    return Dataset(name=source.name, train=splits[0], test=splits[1], num_classes=10)


def _parse_file(source: Source, file: DataFile, path: Path) -> tuple[np.ndarray, ...]:
    """Read, check and parse one file."""
    content = read_checked(file, path)
    if source.kind == "idx":
        return (parse_idx(content, str(path), 3 if "images" in file.name else 1),)
    if file.name.endswith(".bin"):
        return parse_binary_batch(content, str(path))
    return parse_python_batch(content, str(path))


def _check_all(source: Source, layout: Sequence[DataFile], paths: Sequence[Path]) -> None:
    for file, path in zip(layout, paths, strict=True):
        _parse_file(source, file, path)


def _fetch_file(source: Source, file: DataFile, directory: Path, progress: Progress | None) -> None:
    present = find(source, file, [directory])
    if present is not None:
        try:
            _parse_file(source, file, present)
        except TarmacError:
            present.unlink()
        else:
            return
    name = f"{file.name}.gz"

    def check(part: Path) -> None:
        # The part's own suffix says nothing of its compression.
        with _hard_link(part, name) as named:
            _parse_file(source, file, named)

    download(_urls(source, name), directory / name, check, progress)


def _fetch_archive(
    source: Source, archive: str, directory: Path, progress: Progress | None
) -> None:
    target = directory / archive

    def check(part: Path) -> None:
        with _extracted(source, part, directory) as inside:
            for file in source.layouts[0]:
                found = find(source, file, [inside])
                if found is None:
                    raise TarmacError(f"{archive} lacks {file.name}")
                _parse_file(source, file, found)

    download(_urls(source, archive), target, check, progress)
    with _extracted(source, target, directory) as inside:
        for file in source.layouts[0]:
            found = find(source, file, [inside])
            assert found is not None, "checked above"
            with storage_errors(directory):
                found.replace(directory / file.name)
    target.unlink()


def _urls(source: Source, name: str) -> list[str]:
    own = os.environ.get("TARMAC_MIRROR")
    first = [f"{own.rstrip('/')}/{source.name}/{name}"] if own else []
    return first + [base + name for base in source.mirrors]


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    with storage_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    with storage_errors(directory), FileLock(directory / ".lock", is_singleton=False):
        yield


@contextlib.contextmanager
def _hard_link(path: Path, name: str) -> Iterator[Path]:
    """Give a file another name for a while, in a directory of its own."""
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        named = Path(directory) / name
        named.hardlink_to(path)
        yield named


@contextlib.contextmanager
def _extracted(source: Source, archive: Path, beside: Path) -> Iterator[Path]:
    """Unpack the data files of a tar into a directory that lives as long as the block."""
    wanted = {file.name for layout in source.layouts for file in layout}
    with tempfile.TemporaryDirectory(dir=beside) as directory:
        try:
            with tarfile.open(archive) as tar:
                for member in tar:
                    name = Path(member.name).name
                    content = tar.extractfile(member) if member.isfile() else None
                    if content is not None and name in wanted:
                        with (Path(directory) / name).open("wb") as file:
                            shutil.copyfileobj(content, file)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise TarmacError(f"{archive} cannot be unpacked: {error}") from error
        yield Path(directory)


@contextlib.contextmanager
def _unpacked(source: Source, origin: Path) -> Iterator[list[Path]]:
    """Give the directories to search: ``origin``, those in it, and what its archives hold."""
    with contextlib.ExitStack() as stack:
        places = [origin, *sorted(path for path in origin.iterdir() if path.is_dir())]
        if source.archive is not None:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            places.extend(
                stack.enter_context(_extracted(source, archive, scratch))
                for archive in sorted(origin.glob("*.tar*"))
            )
        yield places


def _copy(path: Path, target: Path) -> None:
    with storage_errors(target):
        temporary = target.with_name(f".{target.name}.copy")
        try:
            shutil.copyfile(path, temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
