"""The source of a converted job, stored in the job, and whether the job changed since."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from tarmac.jobs import Job

_DIGEST = "digest"
# Fields that do not change what a job does. A pipeline's algorithms are looked up again.
_APART = {"algorithms", "original", "refusals"}


def with_original(job: Job, name: str, value: dict[str, Any], refusals: Sequence[str] = ()) -> Job:
    """Return a job that stores its source.

    Args:
        job: Job as read from the file.
        name: Name of the format that the job was read from.
        value: Content of the file as plain values, without secrets.
        refusals: Reasons why the job cannot run here. Default: none.
    """
    original = {**job.original, name: value, _DIGEST: _digest(job)}
    changes: dict[str, Any] = {"original": original}
    if refusals:
        changes["refusals"] = tuple(refusals)
    return job.model_copy(update=changes)


def original_of(job: Job, name: str) -> dict[str, Any] | None:
    """Return a job's source in a format, or None if the job has none."""
    value = job.original.get(name)
    return value if isinstance(value, dict) else None


def formats_of(job: Job) -> list[str]:
    """Return the names of the formats that a job was read from."""
    return [name for name in job.original if name != _DIGEST]


def is_changed(job: Job) -> bool | None:
    """Return whether a job was changed after it was read.

    Returns:
        None if unknown: Tarmac 0.1 stored a job's source without a digest.
    """
    before = job.original.get(_DIGEST)
    return None if before is None else before != _digest(job)


def _digest(job: Job) -> str:
    # Without defaults: a later version may add more of them.
    value = job.model_dump(mode="json", by_alias=True, exclude=_APART, exclude_defaults=True)
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
