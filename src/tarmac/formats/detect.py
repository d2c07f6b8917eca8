"""Finds out which system's file one is."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tarmac.files import list_objects
from tarmac.formats.hkube import looks_like_hkube, read_hkube
from tarmac.formats.reading import Reading
from tarmac.formats.shipyard import (
    find_jobs_files,
    looks_like_shipyard,
    read_part,
    read_shipyard,
    read_siblings,
)
from tarmac.jobs import job_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tarmac.documents import Document

__all__ = ["read_any", "read_paths"]

_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"


def read_any(document: Document) -> Reading:
    """Read a file of any known format, by itself.

    Raises:
        RequestError: It is of none, or wrong in the one that it looks like.
    """
    if looks_like_hkube(document.value):
        jobs, notes = read_hkube(document)
        return Reading("hkube", jobs, notes)
    if looks_like_shipyard(document.value):
        return _read_shipyard([document], {})
    job = job_of(document)
    return Reading("tarmac", [job], refusals=job.refusals)


def read_paths(
    paths: Sequence[Path],
    *,
    change: Callable[[Document], Document] = lambda document: document,
    environment: Mapping[str, str] | None = None,
) -> list[tuple[Reading, Path]]:
    """Read files and folders of any known format.

    Batch Shipyard's are read together: a jobs file with the others that are given, or that lie
    beside it.

    Args:
        paths: Files; or folders of Batch Shipyard's files.
        change: Changes a job file before it is read.
        environment: Usually ``os.environ``; where it names a storage account, Batch Shipyard's
            factories over files ask for what is there.

    Returns:
        What each holds, and the directory that its paths start from.

    Raises:
        RequestError: One cannot be read, or is wrong.
    """
    files = [
        file for path in paths for file in (find_jobs_files(path) if path.is_dir() else [path])
    ]
    read = [(file, read_part(file)) for file in files]
    common = [document for _, document in read if _is_part(document)]
    if common and len(common) == len(read):
        return [(_read_shipyard(common, {}), files[-1].parent)]
    found = []
    for file, document in read:
        if _is_part(document):
            continue
        base = file.resolve().parent
        if not looks_like_shipyard(document.value):
            found.append((read_any(change(document)), base))
            continue
        known = [key for part in (*common, document) for key in part.value]
        # What is changed may be of another file, which a jobs file's sections go over.
        documents = [*read_siblings(file, known), *common, change(document)]
        found.append((_read_shipyard(documents, environment or {}), base))
    return found


def _is_part(document: Document) -> bool:
    """Whether a file is of a Batch Shipyard configuration, and not its jobs file."""
    return looks_like_shipyard(document.value) and "job_specifications" not in document.value


def _read_shipyard(documents: Sequence[Document], environment: Mapping[str, str]) -> Reading:
    lister = None
    if environment.get(_ACCOUNT):
        lister = functools.partial(list_objects, environment=environment)
    found = read_shipyard(documents, list_objects=lister)
    return Reading("shipyard", found.jobs, found.notes, found.refusals)
