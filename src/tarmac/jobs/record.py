"""``job-run.json``: the record of a job's run, as a model."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tarmac.files import Moment, read_versioned, write_text
from tarmac.masking import masked_text

# Name of the file in the run's directory.
RECORD = "job-run.json"

# 2 added `executor`; 3 `outcome` and `reason`, and runs with an unknown number of tasks; 4 `file`
# and `file_sha256`, and `gpu_type` of a job's resources.
_SCHEMA_VERSION = 4


class JobRecord(BaseModel):
    """The record of a job's run: the job, and where it runs.

    Attributes:
        schema_version: Version of this file's layout.
        name: Name of the job; the run's name begins with it.
        created_at: Time when the run was made, in UTC.
        base: Directory that the job's relative paths start from.
        num_tasks: Number of all tasks; None while it is unknown, for a pipeline.
        executor: Name of the executor that runs the tasks. Default ``local``.
        outcome: Outcome of a pipeline, which may succeed although some tasks fail. None before its
            end, and for other jobs.
        reason: Why a pipeline failed; empty otherwise.
        job: The job as it was submitted.
        file: Absolute path of the job file; None for a job that no single file holds.
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
    """Read the record of a run.

    Args:
        run: Directory of the run, with its ``job-run.json``.

    Raises:
        RequestError: The run is no job's, or a newer Tarmac wrote its record.
        TarmacError: The record is damaged, or cannot be read.
    """
    return read_versioned(run / RECORD, JobRecord, _SCHEMA_VERSION, "job's run")


def digest_of(file: Path) -> str | None:
    """Return the SHA-256 of a file in hexadecimal; None for an unreadable file."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return None


def changed_file(run: Path) -> str | None:
    """Return a run's job file if it has changed since the run was made, else None.

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
    """Write the record of a run, readable for its owner alone where it may hold a secret.

    A job file may hold a secret as plain text. The record keeps the text unchanged, so that the run
    can be resumed.

    Raises:
        StorageError: The record cannot be written.
    """
    text = record.model_dump_json(indent=2) + "\n"
    write_text(run / RECORD, text, is_private=masked_text(text) != text)
