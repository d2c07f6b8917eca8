"""A run's copy in an object store, where ``output`` is a URI."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError
from tarmac.storage import put_object

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tarmac.runs import Run

__all__ = ["uploaded"]


@contextlib.contextmanager
def uploaded(uri: str | None) -> Iterator[list[Run]]:
    """Upload the runs that a block has made, also where it fails or is stopped.

    Args:
        uri: Where to: each becomes a directory of its name there. None uploads nothing.

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
            _upload(runs, uri)
        raise
    _upload(runs, uri)


def _upload(runs: list[Run], uri: str | None) -> None:
    if uri is None:
        return
    for run in runs:
        for path in _files(run.path):
            target = f"{uri.rstrip('/')}/{run.name}/{path.relative_to(run.path).as_posix()}"
            try:
                put_object(path, target, os.environ)
            except TarmacError as error:
                raise TarmacError(error.message, hint=f"The run is whole in {run.path}") from error


def _files(directory: Path) -> list[Path]:
    # Files that begin with a dot are locks and halves.
    found = directory.rglob("*")
    return sorted(path for path in found if path.is_file() and not path.name.startswith("."))
