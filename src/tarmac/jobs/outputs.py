"""Keeps what a task made: copies of files that match, each whole or absent."""

from __future__ import annotations

import os
import shutil
import stat
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.distribution import require
from tarmac.errors import RequestError, TarmacError, short_reason
from tarmac.files import SCHEMES, Location, atomic_writer, put_object
from tarmac.jobs.run_files import is_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tarmac.jobs.model import Output


def refuse_unknown_stores(outputs: Sequence[Output]) -> None:
    """Raise a RequestError for a URI of a store that is not known, or whose client is missing."""
    for output in outputs:
        location = Location.parse(output.to)
        if location.is_object:
            require("obstore", output.to)
        if not (is_shared(output.to) or location.is_local or location.is_object):
            known = ", ".join(f"{name}://" for name in SCHEMES)
            raise RequestError(
                f"output {output.path}: {location.scheme}:// is not known",
                hint=f"Use a path, file:///path, or one of {known}",
            )


def keep_outputs(
    outputs: Sequence[Output],
    directory: Path,
    base: Path,
    *,
    succeeded: bool,
    linked: str = "",
    told: Callable[[Path, str], None] = lambda *_: None,
) -> list[str]:
    """Copy what is to be kept to where it belongs.

    One that fails does not stop the others.

    Args:
        outputs: What and where to.
        directory: Directory of the task, in which output patterns are matched.
        base: What relative destinations start from: the job file's directory.
        succeeded: Whether the task did.
        linked: What in the directory may be a link of Tarmac's to outside; empty for nothing.
        told: Called with each file that was kept, and where it is.

    Returns:
        What went wrong, a line each.
    """
    problems = []
    for output in outputs:
        if output.when not in ("always", "success" if succeeded else "failure"):
            continue
        paths = [
            path
            for path in _matching(directory, output.path, linked)
            if _is_wanted(output, str(path.relative_to(directory)))
        ]
        if not paths and succeeded and not output.include:
            problems.append(f"output {output.path}: nothing matches")
        for path in paths:
            try:
                name = _name(path, directory, output.root)
                _keep(path, output.to, name, base)
                told(path, f"{output.to.rstrip('/')}/{name.as_posix()}")
            except (OSError, TarmacError) as error:
                problems.append(f"output {path.relative_to(directory)}: {short_reason(error)}")
    return problems


def _is_wanted(output: Output, name: str) -> bool:
    is_in = not output.include or any(fnmatchcase(name, pattern) for pattern in output.include)
    return is_in and not any(fnmatchcase(name, pattern) for pattern in output.exclude)


def _name(path: Path, directory: Path, root: str | None) -> Path:
    above = directory / (root or "")
    if path == above:
        return Path(path.name)
    return path.relative_to(above if path.is_relative_to(above) else directory)


def _matching(directory: Path, pattern: str, linked: str) -> Iterator[Path]:
    """Yield the files that match, those of matching directories too, but none outside.

    A file that has the pattern itself for its name is that file, and no pattern.
    """
    roots = {directory.resolve(), (directory / linked).resolve()}
    literal = directory / pattern
    for path in [literal] if literal.exists() else sorted(directory.glob(pattern)):
        inner = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (
            p for p in inner if p.is_file() and any(p.resolve().is_relative_to(r) for r in roots)
        )


def _keep(source: Path, to: str, name: Path, base: Path) -> None:
    location = Location.parse(to)
    if location.is_object:
        put_object(source, f"{to.rstrip('/')}/{name.as_posix()}", os.environ)
        return
    with source.open("rb") as file, atomic_writer(location.below(base) / name) as copy:
        shutil.copyfileobj(file, copy)
        # A program that a task has built is to be started; whose it is, is ours to say.
        os.fchmod(copy.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o777)
