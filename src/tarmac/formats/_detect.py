"""Finds out which system's file one is."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.formats._hkube import looks_like_hkube, read_hkube
from tarmac.jobs.documents import job_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.jobs import Job
    from tarmac.jobs.documents import Document

__all__ = ["Reading", "read_any"]


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a file holds.

    Attributes:
        format: ``tarmac`` or ``hkube``.
        jobs: In the order of the file.
        notes: What a reader should know: read otherwise, or without effect here.
    """

    format: str
    jobs: Sequence[Job]
    notes: Sequence[str] = ()


def read_any(document: Document) -> Reading:
    """Read a file of any known format.

    Raises:
        RequestError: It is of none, or wrong in the one that it looks like.
    """
    if looks_like_hkube(document.value):
        jobs, notes = read_hkube(document)
        return Reading("hkube", jobs, notes)
    return Reading("tarmac", [job_of(document)])
