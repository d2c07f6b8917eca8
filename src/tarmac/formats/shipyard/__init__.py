"""Azure Batch Shipyard's configurations, before and since 3.0."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from tarmac.documents import Document
from tarmac.files import list_objects
from tarmac.formats.format import Format, Reading
from tarmac.formats.shipyard.reader import ShipyardReading, read_shipyard
from tarmac.formats.shipyard.reading.files import (
    find_jobs_files,
    is_part,
    load,
    looks_like_shipyard,
    read_siblings,
)

__all__ = ["SHIPYARD", "ShipyardReading", "read_shipyard"]

_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"


def _read(documents: Sequence[Document], environment: Mapping[str, str]) -> Reading:
    lister = None
    if environment.get(_ACCOUNT):
        lister = functools.partial(list_objects, environment=environment)
    reading = read_shipyard(documents, list_objects=lister)
    return Reading("shipyard", reading.jobs, reading.notes, reading.refusals)


SHIPYARD = Format(
    name="shipyard",
    title="Batch Shipyard",
    looks_like=looks_like_shipyard,
    read=_read,
    is_part=is_part,
    load=load,
    siblings=read_siblings,
    find=find_jobs_files,
)
