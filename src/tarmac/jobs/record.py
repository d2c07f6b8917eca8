"""``job-run.json``: what a job's run was made from, as a model."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tarmac.files import Moment, read_versioned, write_text
from tarmac.masking import masked_text

# The file's name in the run's directory.
RECORD = "job-run.json"

# 2 added `executor`; 3 `outcome` and `reason`, and runs whose number of tasks is not known; 4
# `file` and `file_sha256`, and `gpu_type` of a job's resources.
_SCHEMA_VERSION = 4


class JobRecord(BaseModel):
    """What a job's run was made from.

    Attributes:
        schema_version: Version of this file's layout.
        name: Name of the job, which the run's name begins with.
        created_at: Time when the run was made, in UTC.
        base: What the job's relative paths start from.
        num_tasks: In all; None while that is not known, of a pipeline.
        executor: Where its tasks run.
        outcome: How a pipeline has ended, which its tasks do not tell: some may fail in one that
            succeeds. None of other jobs, and until then.
        reason: Why it has failed, of a pipeline.
        job: The job as it was submitted.
        file: The job file's absolute path; None of a job that no single file holds.
        file_sha256: SHA-256 checksum of the job file when the run was made; None without such a
            file.
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
    file: str | None = None
    file_sha256: str | None = None


def read_record(run: Path) -> JobRecord:
    """Read what a run was made from.

    Args:
        run: Directory of the run, with its ``job-run.json``.

    Raises:
        RequestError: It is no job's run, or one of a newer Tarmac.
        TarmacError: It is damaged, or cannot be read.
    """
    return read_versioned(run / RECORD, JobRecord, _SCHEMA_VERSION, "job's run")


def digest_of(file: Path) -> str | None:
    """Return the SHA-256 of a file, in hexadecimal; None where it cannot be read."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return None


def changed_file(run: Path) -> str | None:
    """Return the job file of a run that has changed since the run was made; None of others.

    Args:
        run: Directory of the run, with its ``job-run.json``.

    Raises:
        RequestError: See `read_record`.
        TarmacError: See `read_record`.
    """
    record = read_record(run)
    if record.file is None or record.file_sha256 is None:
        return None
    now = digest_of(Path(record.file))
    return record.file if now is not None and now != record.file_sha256 else None


def write_record(run: Path, record: JobRecord) -> None:
    """Write what a run is made from, for its owner alone where a secret may be in it.

    A job file may hold one, which a reference to it would have kept out: what is asked is kept as
    it is, so that the run can go on.

    Raises:
        StorageError: It cannot be written.
    """
    text = record.model_dump_json(indent=2) + "\n"
    write_text(run / RECORD, text, is_private=masked_text(text) != text)
