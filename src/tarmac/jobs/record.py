"""``job-run.json``: what a job's run was made from, as a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from tarmac.files import Moment, read_versioned, write_text
from tarmac.masking import masked_text

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["RECORD", "JobRecord", "read_record", "write_record"]

# The file's name in the run's directory.
RECORD = "job-run.json"

# 2 added `executor`; 3 `outcome` and `reason`, and runs whose number of tasks is not known; 4
# `gpu_type` of a job's resources.
_SCHEMA_VERSION = 4


class JobRecord(BaseModel):
    """What a job's run was made from.

    Attributes:
        schema_version: Of this file's layout.
        name: The job's.
        created_at: UTC.
        base: What the job's relative paths start from.
        num_tasks: In all; None while that is not known, of a pipeline.
        executor: Where its tasks run.
        outcome: How a pipeline has ended, which its tasks do not tell: some may fail in one that
            succeeds. None of other jobs, and until then.
        reason: Why it has failed, of a pipeline.
        job: The job as it was submitted.
    """

    model_config = ConfigDict(frozen=True)

    schema_version: int = _SCHEMA_VERSION
    name: str
    created_at: Moment
    base: str
    num_tasks: int | None
    executor: str = "local"
    outcome: Literal["succeeded", "failed"] | None = None
    reason: str = ""
    job: dict[str, Any]


def read_record(run: Path) -> JobRecord:
    """Read what a run was made from.

    Args:
        run: Its directory.

    Raises:
        RequestError: It is no job's run, or one of a newer Tarmac.
        TarmacError: It is damaged, or cannot be read.
    """
    return read_versioned(run / RECORD, JobRecord, _SCHEMA_VERSION, "job's run")


def write_record(run: Path, record: JobRecord) -> None:
    """Write what a run is made from, for its owner alone where a secret may be in it.

    A job file may hold one, which a reference to it would have kept out: what is asked is kept as
    it is, so that the run can go on.

    Raises:
        StorageError: It cannot be written.
    """
    text = record.model_dump_json(indent=2) + "\n"
    write_text(run / RECORD, text, is_private=masked_text(text) != text)
