"""Azure Batch Shipyard's configurations, of before 3.0 and since."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tarmac.documents import dump_document
from tarmac.files import list_objects
from tarmac.formats.format import Format, Reading, Written
from tarmac.formats.shipyard.reader import ShipyardReading, read_shipyard
from tarmac.formats.shipyard.reading.files import (
    find_jobs_files,
    is_part,
    load,
    looks_like_shipyard,
    read_siblings,
)
from tarmac.formats.shipyard.writing import write_shipyard

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tarmac.documents import Document
    from tarmac.jobs import Job

__all__ = ["SHIPYARD", "ShipyardReading", "read_shipyard", "write_shipyard"]

_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"


def _read(documents: Sequence[Document], environment: Mapping[str, str]) -> Reading:
    lister = None
    if environment.get(_ACCOUNT):
        lister = functools.partial(list_objects, environment=environment)
    reading = read_shipyard(documents, list_objects=lister)
    return Reading("shipyard", reading.jobs, reading.notes, reading.refusals)


def _write(jobs: Sequence[Job], directory: Path) -> Written:
    value, notes = write_shipyard(jobs, directory)
    return Written(dump_document(value), notes)


SHIPYARD = Format(
    name="shipyard",
    title="Batch Shipyard",
    looks_like=looks_like_shipyard,
    read=_read,
    write=_write,
    is_part=is_part,
    load=load,
    siblings=read_siblings,
    find=find_jobs_files,
)
