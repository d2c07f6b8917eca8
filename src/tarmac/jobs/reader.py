"""Reads job files of Tarmac's own form."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tarmac.documents import (
    Problem,
    parse_document,
    problems_of,
    read_document,
    refuse,
    show_path,
)
from tarmac.jobs.graph import faults_of
from tarmac.jobs.model import Job

if TYPE_CHECKING:
    from pathlib import Path

    from tarmac.documents import Document

__all__ = ["job_of", "parse_job", "read_job"]

# What a program gets to see, which is what the file says, also where YAML reads a number: a
# version 1.10 is not 1.1, and the permissions 0755 are not 755.
_SEEN = re.compile(
    r"((tasks\[\d+\]|after_all)\.)?"
    r"((env|settings)\..*|command\[\d+\]|inputs\[\d+\]\.(mode|sha256)"
    r"|environment\.(python|user|build_env\..*|entrypoint\[\d+\])"
    r"|sweep\.((grid|zip|random\.parameters)\..*\[\d+\]|list\[\d+\]\..*))",
    re.DOTALL,
)


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
    if not isinstance(document.value, dict):
        said = "is no job, expected keys and their values, such as name and command"
        raise refuse(document, [Problem(document.place_of(()), "", said)])
    try:
        job = Job.model_validate(_as_written(document))
    except ValidationError as error:
        raise refuse(document, problems_of(error, document, Job)) from error
    faults = [
        Problem(document.place_of(fault.path), show_path(fault.path), fault.message, fault.hint)
        for fault in faults_of(job)
    ]
    if faults:
        raise refuse(document, faults)
    return job


def _as_written(document: Document) -> Any:
    """Return a document's values, with the texts of those that a program gets to see."""
    value = copy.deepcopy(document.value)
    for path, text in document.texts.items():
        if not _SEEN.fullmatch(show_path(path)):
            continue
        *outer, last = path
        holder = value
        for part in outer:
            holder = holder[part]
        holder[last] = text
    return value
