"""Download datasets from mirrors, or add them from a directory."""

from __future__ import annotations

import contextlib
import lzma
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tarmac.data.base import Progress
from tarmac.data.files import find
from tarmac.data.sources import DataFile, Source
from tarmac.data.store import parse, parse_file, place, whole_layout
from tarmac.errors import RequestError, TarmacError
from tarmac.files import (
    UnreachableError,
    download,
    replace_file,
    scratch_directory,
    storage_errors,
    taking_turns,
    temporary_directory,
    temporary_path,
)


def fetch(name: str, root: Path | None = None, *, progress: Progress | None = None) -> Path:
    """Download the missing or damaged files of a dataset.

    A lock makes concurrent processes download the dataset only once. ``TARMAC_MIRROR`` names a base
    URL that is tried first, as ``<base>/<dataset>/<file>``.

    Returns:
        The directory that now holds the dataset.

    Raises:
        RequestError: The dataset is unknown, or needs no download.
        TarmacError: No mirror has the file. The message lists the mirrors and other ways.
    """
    source, directory = place(name, root)
    files = source.layouts[0]
    # Another user's dataset can be read without write access, but its lock cannot be taken.
    if not os.access(directory, os.W_OK) and _is_right(source, directory):
        return directory
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
                hint=f"{error.hint}\nOr get the files elsewhere (see {source.homepage}) "
                f"and type\n  tarmac data add {name} --from DIR\n"
                "or train on data that needs no download:\n  tarmac train digits-mlp",
            ) from error
    return directory


def add(name: str, origin: Path, root: Path | None = None) -> Path:
    """Copy a dataset's files from a directory, for machines without internet.

    Args:
        name: Name of a downloadable dataset, such as ``mnist``.
        origin: Directory with the files, compressed or not, in any published layout, or with the
            archive.
        root: Directory that holds all datasets. Default `data_root`.

    Returns:
        The directory that now holds the dataset.

    Raises:
        RequestError: The dataset or the directory does not exist, or files are missing.
        TarmacError: A file in the directory is damaged. Nothing was copied.
    """
    source, directory = place(name, root)
    if not origin.is_dir():
        raise RequestError(f"{origin} is not a directory")
    with _unpacked(source, origin) as places:
        candidates = [
            (layout, [find(source, file, places) for file in layout]) for layout in source.layouts
        ]
        layout, paths = max(candidates, key=lambda pair: sum(path is not None for path in pair[1]))
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
                target = directory / (file.name + (".gz" if path.suffix == ".gz" else ""))
                _copy(path, target)
                # `find` could return another form of the same file first, perhaps a damaged one.
                while (other := find(source, file, [directory])) not in (None, target):
                    assert other is not None
                    other.unlink()
    return directory


def _is_right(source: Source, directory: Path) -> bool:
    layout = whole_layout(source, directory)
    if layout is None:
        return False
    try:
        parse(source, layout, directory)
    except TarmacError:
        return False
    return True


def _check_all(source: Source, layout: Sequence[DataFile], paths: Sequence[Path]) -> None:
    for file, path in zip(layout, paths, strict=True):
        parse_file(source, file, path)


def _fetch_file(source: Source, file: DataFile, directory: Path, progress: Progress | None) -> None:
    present = find(source, file, [directory])
    if present is not None:
        try:
            parse_file(source, file, present)
        except TarmacError:
            present.unlink()
        else:
            return
    name = f"{file.name}.gz" if source.is_compressed else file.name

    def check(part: Path) -> None:
        parse_file(source, file, part, compressed=source.is_compressed)

    download(_urls(source, name), directory / name, check, progress)


def _fetch_archive(
    source: Source, archive: str, directory: Path, progress: Progress | None
) -> None:
    target = directory / archive

    def check(part: Path) -> None:
        with _extracted(source, part, directory) as inside:
            for file in source.layouts[0]:
                path = find(source, file, [inside])
                if path is None:
                    raise TarmacError(f"{archive} lacks {file.name}")
                parse_file(source, file, path)

    download(_urls(source, archive), target, check, progress)
    with _extracted(source, target, directory) as inside:
        for file in source.layouts[0]:
            path = find(source, file, [inside])
            assert path is not None, "checked above"
            with storage_errors(directory):
                replace_file(path, directory / file.name)
    target.unlink()


def _urls(source: Source, name: str) -> list[str]:
    own = os.environ.get("TARMAC_MIRROR")
    first = [f"{own.rstrip('/')}/{source.name}/{name}"] if own else []
    return first + [base + name for base in source.mirrors]


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    with contextlib.ExitStack() as turn:
        with storage_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
            turn.enter_context(taking_turns(directory / ".lock"))
        yield


@contextlib.contextmanager
def _extracted(source: Source, archive: Path, beside: Path) -> Iterator[Path]:
    """Unpack the data files of a tar into a directory that is removed after the block."""
    wanted = {file.name for layout in source.layouts for file in layout}
    with contextlib.ExitStack() as stack:
        with storage_errors(beside):
            directory = stack.enter_context(temporary_directory(beside))
        try:
            with tarfile.open(archive) as tar:
                for member in tar:
                    name = Path(member.name).name
                    content = tar.extractfile(member) if member.isfile() else None
                    if content is not None and name in wanted:
                        with (directory / name).open("wb") as file:
                            shutil.copyfileobj(content, file)
        except (tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            raise TarmacError(f"{archive} cannot be unpacked: {error}") from error
        yield directory


@contextlib.contextmanager
def _unpacked(source: Source, origin: Path) -> Iterator[list[Path]]:
    """Yield the directories to search: ``origin``, its subdirectories, its unpacked archives."""
    with contextlib.ExitStack() as stack:
        places = [origin, *sorted(path for path in origin.iterdir() if path.is_dir())]
        if source.archive is not None:
            scratch = stack.enter_context(scratch_directory())
            places.extend(
                stack.enter_context(_extracted(source, archive, scratch))
                for archive in sorted(origin.glob("*.tar*"))
            )
        yield places


def _copy(path: Path, target: Path) -> None:
    with storage_errors(target):
        temporary = temporary_path(target.parent)
        try:
            shutil.copyfile(path, temporary)
            replace_file(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
