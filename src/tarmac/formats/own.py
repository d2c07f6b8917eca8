"""Tarmac's own job files as one of the formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.documents import Document, dump_document
from tarmac.formats.format import Format, Reading, Written
from tarmac.formats.hkube import complete_job, definitions_beside
from tarmac.jobs import Job, job_of


def _looks_like(value: Any) -> bool:
    # A document of no known format gets the error messages of this one.
    del value
    return True


def _read(documents: Sequence[Document], environment: Mapping[str, str]) -> Reading:
    del environment
    job = job_of(documents[-1])
    if job.pipeline is not None:
        return complete_job(job, documents)
    return Reading("tarmac", [job], refusals=job.refusals, source=documents[-1])


def _siblings(path: Path, documents: Sequence[Document]) -> Sequence[Document]:
    value = documents[-1].value
    has_pipeline = isinstance(value, dict) and isinstance(value.get("pipeline"), dict)
    return definitions_beside(path, documents) if has_pipeline else ()


def _write(jobs: Sequence[Job], directory: Path) -> Written:
    del directory
    (job,) = jobs
    return Written(dump_document(job.model_dump(mode="json", by_alias=True, exclude_unset=True)))


TARMAC = Format(
    name="tarmac",
    title="Tarmac",
    looks_like=_looks_like,
    read=_read,
    write=_write,
    holds_several=False,
    siblings=_siblings,
)
