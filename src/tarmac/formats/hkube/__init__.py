"""HKube's algorithm definitions, to and from jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.formats.format import Format, Reading, Written
from tarmac.formats.hkube.fields import NAME, looks_like_hkube
from tarmac.formats.hkube.reading import read_hkube
from tarmac.formats.hkube.writing import left_out_for_hkube, notes_for_hkube, write_hkube

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tarmac.documents import Document
    from tarmac.jobs import Job

__all__ = ["HKUBE", "left_out_for_hkube", "notes_for_hkube", "read_hkube", "write_hkube"]


def _read(documents: Sequence[Document], environment: Mapping[str, str]) -> Reading:
    del environment
    (document,) = documents
    jobs, notes = read_hkube(document)
    return Reading(NAME, jobs, notes)


def _write(jobs: Sequence[Job], directory: Path) -> Written:
    del directory
    for job in jobs:
        if job.refusals:
            first, *rest = job.refusals
            raise RequestError(
                f"{job.name} cannot be run here, nor by HKube: {first}",
                hint="\n".join(rest) or None,
            )
    definitions = [write_hkube(job) for job in jobs]
    value = definitions[0] if len(definitions) == 1 else definitions
    notes = [note for job in jobs for note in notes_for_hkube(job)]
    return Written(f"{json.dumps(value, indent=2)}\n", notes)


HKUBE = Format(name=NAME, title="HKube", looks_like=looks_like_hkube, read=_read, write=_write)
