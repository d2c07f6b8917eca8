"""A run's copy in an object store, where ``output`` is a URI."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError
from tarmac.files import put_object

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tarmac.runs import Run

__all__ = ["uploaded"]


@contextlib.contextmanager
def uploaded() -> Iterator[list[Run]]:
    """Upload the runs that a block works on, also where it fails or is stopped.

    Each becomes a directory of its name below the URI that its record names; one that names none is
    left alone.

    Yields:
        A list to append the runs to.

    Raises:
        TarmacError: The store does not take one, which is whole on this machine all the same.
    """
    runs: list[Run] = []
    try:
        yield runs
    except BaseException:
        # What failed first is what is to be said.
        with contextlib.suppress(TarmacError):
            _upload(runs)
        raise
    _upload(runs)


def _upload(runs: list[Run]) -> None:
    for run in runs:
        uri = run.record.uploaded_to
        for path in _files(run.path) if uri is not None else ():
            target = f"{str(uri).rstrip('/')}/{run.name}/{path.relative_to(run.path).as_posix()}"
            try:
                put_object(path, target, os.environ)
            except TarmacError as error:
                raise TarmacError(error.message, hint=f"The run is whole in {run.path}") from error


def _files(directory: Path) -> list[Path]:
    # Files that begin with a dot are locks and halves.
    found = directory.rglob("*")
    return sorted(path for path in found if path.is_file() and not path.name.startswith("."))
