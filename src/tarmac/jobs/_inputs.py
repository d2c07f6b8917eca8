"""Brings a task's inputs into its directory, checked, and nowhere else."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from tarmac.distribution import require
from tarmac.errors import RequestError, TarmacError
from tarmac.jobs._shared import is_shared
from tarmac.storage import (
    atomic_writer,
    get_object,
    is_object,
    is_object_directory,
    list_objects,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.jobs._job import Input

__all__ = ["fetch_inputs", "refuse_missing_inputs"]

_TIMEOUT_S = 60.0
_CHUNK_BYTES = 2**20

# More than any archive of a task's inputs; less than what fills a disk by a few bytes that expand.
_MOST_FILES = 1_000_000
_MOST_EXPANSION = 1000


def refuse_missing_inputs(inputs: Sequence[Input], base: Path) -> None:
    """Raise a RequestError where a path is not there, or an object store's client.

    Args:
        inputs: Of any task.
        base: What relative paths start from: the job file's directory.
    """
    for given in inputs:
        if is_object(given.source):
            require("obstore", given.source)
        is_elsewhere = _is_url(given.source) or is_object(given.source) or is_shared(given.source)
        if not is_elsewhere and not (base / given.source).exists():
            raise RequestError(f"input {given.source}: no such file or directory")


def fetch_inputs(inputs: Sequence[Input], base: Path, directory: Path) -> None:
    """Bring inputs into a task's directory.

    Args:
        inputs: From where, to where.
        base: What relative paths start from.
        directory: The task's.

    Raises:
        TarmacError: One cannot be had, has another checksum, or would leave the directory.
    """
    for given in inputs:
        is_remote = _is_url(given.source) or is_object(given.source)
        name = PurePosixPath(urlsplit(given.source).path).name if is_remote else ""
        name = name or Path(given.source).name
        target = directory / (given.to or ("." if given.unpack else name))
        if not target.resolve().is_relative_to(directory.resolve()):
            raise TarmacError(f"input {given.source}: {given.to} leads out of the task's directory")
        if given.unpack:
            archive = directory / f".{name}.part"
            try:
                _bring(given, base, archive)
                _unpack(archive, name, target)
            finally:
                archive.unlink(missing_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir() and given.to == "." and not _is_directory(given, base):
                target /= name
            _bring(given, base, target)
            if given.mode is not None and target.is_file():
                target.chmod(int(given.mode, 8))


def _is_directory(given: Input, base: Path) -> bool:
    if is_object(given.source):
        return is_object_directory(given.source, os.environ)
    return not _is_url(given.source) and (base / given.source).is_dir()


def _is_url(source: str) -> bool:
    return urlsplit(source).scheme in ("http", "https")


def _bring(given: Input, base: Path, target: Path) -> None:
    if _is_url(given.source):
        digest = _download(given.source, target)
    elif is_object(given.source) and _is_directory(given, base):
        _bring_objects(given, target)
        return
    elif is_object(given.source):
        get_object(given.source, target, os.environ)
        digest = _digest(target)
    else:
        source = base / given.source
        try:
            if source.is_dir():
                _copy_directory(given, source, target)
                return
            shutil.copyfile(source, target)
            shutil.copymode(source, target)
        except OSError as error:
            raise TarmacError(f"input {given.source}: {error.strerror}") from error
        digest = _digest(target)
    if given.sha256 is not None and digest != given.sha256.lower():
        target.unlink()
        raise TarmacError(
            f"input {given.source}: its SHA-256 is {digest}, expected {given.sha256.lower()}"
        )


def _bring_objects(given: Input, target: Path) -> None:
    root = given.source.rstrip("/") + "/"
    for uri in list_objects(root, os.environ):
        name = uri.removeprefix(root)
        path = target / name
        if not _is_wanted(given, name):
            continue
        if not path.resolve().is_relative_to(target.resolve()):
            raise TarmacError(f"input {given.source}: {name} leads out of the task's directory")
        path.parent.mkdir(parents=True, exist_ok=True)
        get_object(uri, path, os.environ)


def _copy_directory(given: Input, source: Path, target: Path) -> None:
    if not given.include and not given.exclude:
        shutil.copytree(source, target, dirs_exist_ok=True)
        return
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        if path.is_file() and _is_wanted(given, name.as_posix()):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target / name)


def _is_wanted(given: Input, name: str) -> bool:
    is_in = not given.include or any(fnmatchcase(name, pattern) for pattern in given.include)
    return is_in and not any(fnmatchcase(name, pattern) for pattern in given.exclude)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(url: str, target: Path) -> str:
    digest = hashlib.sha256()
    try:
        with (
            httpx.stream("GET", url, follow_redirects=True, timeout=_TIMEOUT_S) as response,
            atomic_writer(target) as file,
        ):
            response.raise_for_status()
            for chunk in response.iter_bytes(_CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
    except httpx.HTTPError as error:
        # The text of some of these has the whole URL, with what stands in its query.
        plain = urlsplit(url)._replace(query="", fragment="").geturl()
        kind = type(error).__name__
        if isinstance(error, httpx.HTTPStatusError):
            kind = f"the server answers {error.response.status_code}"
        raise TarmacError(f"input {plain}: {kind}") from error
    return digest.hexdigest()


def _unpack(archive: Path, name: str, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    try:
        if zipfile.is_zipfile(archive):
            _unzip(archive, target)
        else:
            with tarfile.open(archive) as tar:
                # Refuses absolute paths, .., links out of the directory, devices (PEP 706).
                tar.extractall(target, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, OSError) as error:
        raise TarmacError(f"input {name}: cannot be unpacked: {error}") from error


def _unzip(archive: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        members = file.infolist()
        size = sum(member.file_size for member in members)
        if len(members) > _MOST_FILES or size > _MOST_EXPANSION * archive.stat().st_size:
            raise zipfile.BadZipFile("it expands to more than an archive of inputs does")
        # Takes .. and drives out of names by itself.
        file.extractall(target)  # noqa: S202
