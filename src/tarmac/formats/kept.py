"""What a job was read from, kept in it; and whether the job still says the same."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.jobs import Job

__all__ = ["is_changed", "keep"]

_DIGEST = "digest"
# What is no part of what a job does.
_APART = {"kept", "refusals"}


def keep(job: Job, name: str, value: Any, refusals: Sequence[str] = ()) -> Job:
    """Return a job with what it was read from, of which `is_changed` is the counterpart.

    Args:
        job: As it was read.
        name: Of the format.
        value: As in the file, without secrets.
        refusals: What keeps it from being run here.
    """
    changes: dict[str, Any] = {"kept": {**job.kept, name: value, _DIGEST: _digest(job)}}
    if refusals:
        changes["refusals"] = tuple(refusals)
    return job.model_copy(update=changes)


def is_changed(job: Job) -> bool:
    """Whether a job no longer says what it did when `keep` was asked.

    Of a job that was read before this was kept, nothing is known, and it counts as the same.
    """
    before = job.kept.get(_DIGEST)
    return before is not None and before != _digest(job)


def _digest(job: Job) -> str:
    # Without defaults, which a later version may have more of.
    value = job.model_dump(mode="json", by_alias=True, exclude=_APART, exclude_defaults=True)
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
