"""Stage-in of a task's inputs: checked, and only into the task's directory."""

from __future__ import annotations

import dataclasses
import hashlib
import lzma
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.distribution import require
from tarmac.errors import RequestError, TarmacError, short_reason
from tarmac.files import (
    SCHEMES,
    Location,
    UnreachableError,
    download,
    get_object,
    is_object_directory,
    list_objects,
    tarfile,
    temporary_directory,
    without_password,
)
from tarmac.tasks.receipts import RECEIPTS
from tarmac.tasks.run_files import is_shared

if TYPE_CHECKING:
    from tarmac.tasks.model import Input

# Above any archive of a task's inputs, and below a few bytes that expand to fill a disk.
_MAX_FILES = 1_000_000
_MAX_EXPANSION = 1000

# Only the directory of a job's run has this file.
_RUN_RECORD = "job-run.json"


def refuse_missing_inputs(inputs: Sequence[Input], base: Path) -> None:
    """Raise a RequestError for a missing or malformed input, or a missing client of its store.

    Args:
        inputs: Inputs of a task, before any is staged in.
        base: Directory that relative paths start from: the job file's directory.
    """
    for task_input in inputs:
        location = Location.parse(task_input.source)
        if location.is_object:
            require("obstore", task_input.source)
        if is_shared(task_input.source) or location.is_url or location.is_object:
            continue
        if not location.is_local:
            known = ", ".join(f"{name}://" for name in ("https", *SCHEMES))
            raise RequestError(
                f"input {_shown(task_input)}: {location.scheme}:// is not known",
                hint=f"Use a path, file:///path, or one of {known}",
            )
        path = location.below(base)
        if path.is_symlink() and not path.exists():
            raise RequestError(
                f"input {task_input.source}: a link to {path.readlink()}, which is gone"
            )
        if not path.exists():
            raise RequestError(f"input {task_input.source}: no such file or directory")
        if path.is_dir() and (problem := _problem_of_directory(task_input)):
            raise RequestError(problem)


def fetch_inputs(inputs: Sequence[Input], base: Path, directory: Path) -> None:
    """Stage inputs into a task's directory.

    Args:
        inputs: Inputs of the task, each with a source and a place in the directory.
        base: Directory that relative paths start from.
        directory: Directory of the task, which no input may leave.

    Raises:
        TarmacError: An input is unavailable, has another checksum, or would leave the directory.
    """
    for task_input in inputs:
        source = _Source(task_input, Location.parse(task_input.source), base, directory)
        try:
            source.bring()
        except OSError as error:
            raise TarmacError(f"input {_shown(task_input)}: {short_reason(error)}") from error


def _shown(task_input: Input) -> str:
    return without_password(task_input.source)


def _problem_of_directory(task_input: Input) -> str | None:
    """Return the setting of an input that does not apply to a directory, as a message."""
    if task_input.sha256 is not None:
        return f"input {_shown(task_input)}: sha256 is that of one file, and this is a directory"
    if task_input.unpack:
        return f"input {_shown(task_input)}: unpack is for an archive, and this is a directory"
    return None


@dataclasses.dataclass(frozen=True)
class _Source:
    """An input to stage into a task's directory.

    Attributes:
        task_input: Input as the job describes it.
        location: Location that the input's source was parsed into.
        base: Directory that a relative path starts from.
        directory: Directory of the task, which the input may not leave.
    """

    task_input: Input
    location: Location
    base: Path
    directory: Path

    def bring(self) -> None:
        task_input = self.task_input
        name = self.location.name
        target = self.directory / (task_input.to or ("." if task_input.unpack else name))
        if not target.resolve().is_relative_to(self.directory.resolve()):
            raise TarmacError(
                f"input {_shown(task_input)}: {task_input.to or name} leads out of the task's "
                "directory"
            )
        if self._is_directory():
            if problem := _problem_of_directory(task_input):
                raise TarmacError(problem)
            self._bring_directory(target)
        elif task_input.unpack:
            with self._scratch() as scratch:
                archive = scratch / "archive"
                self._bring_file(archive)
                _unpack(archive, _shown(task_input), target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir() and task_input.to == ".":
                target /= name
            self._bring_file(target)
            if task_input.mode is not None:
                target.chmod(int(task_input.mode, 8))

    def _is_directory(self) -> bool:
        if self.location.is_object:
            return is_object_directory(self.task_input.source, os.environ)
        return self.location.is_local and self.location.below(self.base).is_dir()

    def _scratch(self) -> AbstractContextManager[Path]:
        # A unique name, so that no other input is taken for a part of this input.
        return temporary_directory(self.directory)

    def _bring_file(self, target: Path) -> None:
        task_input = self.task_input
        if self.location.is_url:
            with self._scratch() as scratch:
                self._download(scratch / "download", target)
        elif self.location.is_object:
            get_object(task_input.source, target, os.environ)
            self._check(target)
        else:
            source = self.location.below(self.base)
            if source.exists() and not source.is_file():
                raise TarmacError(f"input {_shown(task_input)}: neither a file nor a directory")
            shutil.copyfile(source, target)
            shutil.copymode(source, target)
            self._check(target)

    def _download(self, scratch: Path, target: Path) -> None:
        try:
            download([self.task_input.source], scratch, self._check)
        except UnreachableError as error:
            (why,) = error.failures
            raise TarmacError(f"input {why}") from error
        scratch.replace(target)

    def _check(self, path: Path) -> None:
        expected = self.task_input.sha256
        if expected is None:
            return
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != expected.lower():
            path.unlink()
            raise TarmacError(
                f"input {_shown(self.task_input)}: its SHA-256 is {digest}, "
                f"expected {expected.lower()}"
            )

    def _bring_directory(self, target: Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        if self.location.is_object:
            self._bring_objects(target)
            return
        is_whole = not self.task_input.include and not self.task_input.exclude
        source = self.location.below(self.base)
        for path in self._below(source):
            name = path.relative_to(source)
            if path.is_dir():
                if is_whole:
                    (target / name).mkdir(parents=True, exist_ok=True)
            elif self._is_wanted(name.as_posix()):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target / name)

    def _below(self, source: Path) -> Iterator[Path]:
        """Yield the directories and files below a directory, in order; links are followed.

        Where the task's own directory is below it, runs of jobs are left out: each run would hold
        all earlier runs.
        """
        holds_itself = self.directory.resolve().is_relative_to(source.resolve())
        for root, directories, files in os.walk(source, followlinks=True):
            here = Path(root)
            if here != source and here.is_symlink() and _is_above_itself(here):
                raise TarmacError(
                    f"input {_shown(self.task_input)}: {here} is a link to a directory that "
                    "contains it"
                )
            if holds_itself:
                directories[:] = [d for d in directories if not (here / d / _RUN_RECORD).exists()]
            directories.sort()
            yield from (here / name for name in directories)
            for name in sorted(files):
                path = here / name
                if path.is_symlink() and not path.exists():
                    raise TarmacError(
                        f"input {_shown(self.task_input)}: {path} is a link to {path.readlink()}, "
                        "which is gone"
                    )
                if not path.is_file():
                    raise TarmacError(
                        f"input {_shown(self.task_input)}: {path} is neither a file nor a directory"
                    )
                yield path

    def _bring_objects(self, target: Path) -> None:
        root = self.task_input.source.rstrip("/") + "/"
        for uri in list_objects(root, os.environ):
            name = uri.removeprefix(root)
            path = target / name
            if not self._is_wanted(name) or RECEIPTS in name.split("/"):
                continue
            if not path.resolve().is_relative_to(target.resolve()):
                raise TarmacError(
                    f"input {_shown(self.task_input)}: {name} leads out of the task's directory"
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            get_object(uri, path, os.environ)

    def _is_wanted(self, name: str) -> bool:
        include, exclude = self.task_input.include, self.task_input.exclude
        is_in = not include or any(fnmatchcase(name, pattern) for pattern in include)
        return is_in and not any(fnmatchcase(name, pattern) for pattern in exclude)


def _is_above_itself(link: Path) -> bool:
    return link.parent.resolve().is_relative_to(link.resolve())


def _unpack(archive: Path, name: str, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    limit = _Limit(archive.stat().st_size)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as file:
                for member in file.infolist():
                    limit.count(member.file_size)
                # zipfile removes .. and drives from names.
                file.extractall(target)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(target, filter=limit.of_member)
                # The checksum follows the last member, where tarfile does not look.
                limit.read_to_end(tar.fileobj.read)
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        OSError,
        RuntimeError,  # from zipfile, for a member with a password
        NotImplementedError,  # from zipfile, for an unknown compression
    ) as error:
        raise TarmacError(f"input {name}: cannot be unpacked: {error}") from error


class _Limit:
    """A limit on the files and bytes that an archive expands to.

    Args:
        archive_bytes: Size of the archive in bytes.
    """

    def __init__(self, archive_bytes: int) -> None:
        self._most_bytes = _MAX_EXPANSION * archive_bytes
        self._files = 0
        self._bytes = 0

    def count(self, size_bytes: int) -> None:
        """Count a member; raise a TarError above the limit."""
        self._files += 1
        self._bytes += size_bytes
        self._refuse_too_much()

    def _refuse_too_much(self) -> None:
        if self._files > _MAX_FILES or self._bytes > self._most_bytes:
            raise tarfile.ReadError("it expands to more than an archive of inputs does")

    def read_to_end(self, read: Callable[[int], bytes]) -> None:
        """Read the rest, to find damage anywhere; raise a TarError above the limit."""
        while block := read(1 << 20):
            self._bytes += len(block)
            self._refuse_too_much()

    def of_member(self, member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        """Refuse absolute paths, .., links out of the directory, devices (PEP 706)."""
        self.count(member.size)
        return tarfile.data_filter(member, path)
