"""Keeps what a task made: copies of files that match, each whole or absent."""

from __future__ import annotations

import os
import shutil
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tarmac.distribution import require
from tarmac.errors import RequestError, TarmacError
from tarmac.jobs._shared import is_shared
from tarmac.storage import SCHEMES, atomic_writer, is_object, put_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tarmac.jobs._job import Output

__all__ = ["keep_outputs", "refuse_unknown_stores"]


def refuse_unknown_stores(outputs: Sequence[Output]) -> None:
    """Raise a RequestError for a URI of a store that is not known, or whose client is missing."""
    for output in outputs:
        if is_object(output.to):
            require("obstore", output.to)
        scheme = urlsplit(output.to).scheme
        if scheme not in ("", "file", *SCHEMES) and not is_shared(output.to):
            known = ", ".join(f"{name}://" for name in SCHEMES)
            raise RequestError(
                f"output {output.path}: {scheme}:// is not known",
                hint=f"Use a path, file:///path, or one of {known}",
            )


def keep_outputs(
    outputs: Sequence[Output], directory: Path, base: Path, *, succeeded: bool
) -> list[str]:
    """Copy what is to be kept to where it belongs.

    One that fails does not stop the others.

    Args:
        outputs: What and where to.
        directory: The task's.
        base: What relative destinations start from: the job file's directory.
        succeeded: Whether the task did.

    Returns:
        What went wrong, a line each.
    """
    problems = []
    for output in outputs:
        if output.when not in ("always", "success" if succeeded else "failure"):
            continue
        found = [
            path
            for path in _matching(directory, output.path)
            if not any(fnmatchcase(str(path.relative_to(directory)), p) for p in output.exclude)
        ]
        if not found and succeeded:
            problems.append(f"output {output.path}: nothing matches")
        for path in found:
            try:
                _keep(path, output.to, _name(path, directory, output.root), base)
            except (OSError, TarmacError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                problems.append(f"output {path.relative_to(directory)}: {reason}")
    return problems


def _name(path: Path, directory: Path, root: str | None) -> Path:
    above = directory / (root or "")
    if path == above:
        return Path(path.name)
    return path.relative_to(above if path.is_relative_to(above) else directory)


def _matching(directory: Path, pattern: str) -> Iterator[Path]:
    """Yield the files that match, those of matching directories too, but none outside."""
    root = directory.resolve()
    for path in sorted(directory.glob(pattern)):
        inner = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (p for p in inner if p.is_file() and p.resolve().is_relative_to(root))


def _keep(source: Path, to: str, name: Path, base: Path) -> None:
    if is_object(to):
        put_object(source, f"{to.rstrip('/')}/{name.as_posix()}", os.environ)
        return
    target = base / Path(urlsplit(to).path) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as file, atomic_writer(target) as copy:
        shutil.copyfileobj(file, copy)
