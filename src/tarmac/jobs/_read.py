"""Reads job files of Tarmac's own form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from tarmac.jobs._document import parse_document, problems_of, read_document, refuse
from tarmac.jobs._job import Job

if TYPE_CHECKING:
    from pathlib import Path

    from tarmac.jobs._document import Document

__all__ = ["job_of", "parse_job", "read_job"]


def read_job(path: Path) -> Job:
    """Read a job file.

    Raises:
        RequestError: It cannot be read, or is no job; every problem is said with its line and
            column, its path in the document, and the nearest valid name.
    """
    return job_of(read_document(path))


def parse_job(text: str, name: str = "job") -> Job:
    """Read a job from a text; see `read_job`."""
    return job_of(parse_document(text, name))


def job_of(document: Document) -> Job:
    """Make a job of a document; see `read_job`."""
    try:
        return Job.model_validate(document.value)
    except ValidationError as error:
        raise refuse(document, problems_of(error, document, Job)) from error
