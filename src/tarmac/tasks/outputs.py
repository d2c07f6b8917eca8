"""Storage of a task's outputs: copies of matching files, each whole or absent."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.distribution import require
from tarmac.errors import RequestError, TarmacError, short_reason
from tarmac.files import SCHEMES, Location, atomic_writer, put_object
from tarmac.tasks.run_files import is_shared

if TYPE_CHECKING:
    from tarmac.tasks.model import Output


def refuse_unknown_stores(outputs: Sequence[Output]) -> None:
    """Raise a RequestError for a URI of an unknown store, or of a store whose client is missing."""
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
    on_kept: Callable[[Path, str], None] = lambda *_: None,
) -> list[str]:
    """Copy the output files of a task to their destinations.

    A failed copy does not stop the others.

    Args:
        outputs: Patterns of files, with their destinations.
        directory: Directory of the task, in which output patterns are matched.
        base: Directory that relative destinations start from: the job file's directory.
        succeeded: Whether the task succeeded.
        linked: Name in the directory that may be Tarmac's own link to outside; empty for none.
        on_kept: Called with each stored file and its destination.

    Returns:
        The problems, a line each.
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
                on_kept(path, f"{output.to.rstrip('/')}/{name.as_posix()}")
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
    """Yield the files that match a pattern, with those of matching directories, but none outside.

    A file whose name equals the pattern is the only match.
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
        # A built program stays executable; setuid and setgid bits are dropped.
        os.fchmod(copy.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o777)
