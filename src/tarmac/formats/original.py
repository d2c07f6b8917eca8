"""What a job was converted from, stored in it; and whether the job still says the same."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.jobs import Job

_DIGEST = "digest"
# What is no part of what a job does; the algorithms that a pipeline names are found anew.
_APART = {"algorithms", "original", "refusals"}


def with_original(job: Job, name: str, value: dict[str, Any], refusals: Sequence[str] = ()) -> Job:
    """Return a job with what it was read from.

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
    """Return what a job was read from in a format; None where it was not."""
    value = job.original.get(name)
    return value if isinstance(value, dict) else None


def formats_of(job: Job) -> list[str]:
    """Return the names of the formats that a job was read from."""
    return [name for name in job.original if name != _DIGEST]


def is_changed(job: Job) -> bool | None:
    """Whether a job no longer says what it did when it was read.

    Returns:
        None where that is not known: Tarmac 0.1 noted only what a job was read from.
    """
    before = job.original.get(_DIGEST)
    return None if before is None else before != _digest(job)


def _digest(job: Job) -> str:
    # Without defaults, which a later version may have more of.
    value = job.model_dump(mode="json", by_alias=True, exclude=_APART, exclude_defaults=True)
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
