"""``RUN/chunks``: the chunks of a run, each written before the engine is called.

Agents read ``0003.spec`` and ``0003.index``. The next session of the run reads ``0003.json``. The
directory ``0003`` holds the engine's own output.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tarmac.executors.queueing.clusters import ClusterId
from tarmac.files import read_versioned, storage_errors, write_text
from tarmac.node import AttemptSpec, Chunk

_SCHEMA_VERSION = 2

# With the run's code, the number and Kubernetes' additions, a name has at most 63 characters.
_LABEL_LENGTH = 30

# Suffix of a run's directory: its time, and a text that distinguishes runs of the same second. A
# dry run has no time.
_RUN_SUFFIX = re.compile(r"-(?:\d{8}-\d{6}-[0-9a-z]+|RUN)$")


class ChunkRecord(BaseModel):
    """A chunk: attempts of one shape in a single submission.

    Attributes:
        schema_version: Version of this file's layout. Default 2, the newest.
        number: Number of the chunk in its run, from 0.
        name: Unique name by which the engine knows the chunk.
        nonce: Random hex text that marks the chunk's attempts in their records.
        shape: Needs of its units, as `Engine.shape` returns them.
        attempts: Pairs of a task's index and an attempt's number, in the order of the elements.
        per_unit: Attempts that each unit runs, one after another. Default 1.
        state: ``written`` before the submission, ``submitted`` once the engine has it, ``over``
            once none of its attempts is left.
        job: The engine's name for the chunk, such as ``80``; empty until the engine has answered.
        made_at: Time at which the chunk was made, in UTC.
        cluster: Cluster that the chunk was submitted to; None where it was not recorded.
    """

    model_config = ConfigDict(frozen=True)

    schema_version: int = _SCHEMA_VERSION
    number: int
    name: str
    nonce: str
    shape: dict[str, Any]
    attempts: tuple[tuple[int, int], ...]
    per_unit: int = 1
    state: Literal["written", "submitted", "over"] = "written"
    job: str = ""
    made_at: datetime
    cluster: ClusterId | None = None

    @property
    def num_units(self) -> int:
        """The number of units in the chunk."""
        return -(-len(self.attempts) // self.per_unit)


def chunk_name(run: Path, number: int) -> str:
    """Return the engine's name for a chunk, the same in every session."""
    return f"{job_label(run)}-{run_code(run)}-{number:04d}"


def job_label(run: Path) -> str:
    """Return the job's name for engines: a DNS label of at most 30 characters, ``sweep``.

    The label comes first in the names of a run's jobs, as squeue shows 8 characters.
    """
    name = re.sub(r"[^a-z0-9]+", "-", _RUN_SUFFIX.sub("", run.name).lower()).strip("-")
    name = name if name[:1].isalpha() else f"tarmac-{name}"
    return name[:_LABEL_LENGTH].strip("-")


def run_code(run: Path) -> str:
    """Return the run's code in its jobs' names, a hash that differs for equal names elsewhere."""
    return hashlib.sha256(str(run).encode()).hexdigest()[:8]


class ChunkFiles:
    """The chunk files of a run.

    Args:
        run: The run's directory; the chunks are below ``chunks/``.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self.directory = run / "chunks"
        self._next: int | None = None

    @property
    def job_label(self) -> str:
        """The job's name for engines; see the function `job_label`."""
        return job_label(self._run)

    def read(self) -> list[ChunkRecord]:
        """Return all chunks, in order of creation.

        Raises:
            TarmacError: A file is damaged, or cannot be read.
            RequestError: A file was written by a newer Tarmac.
        """
        paths = sorted(self.directory.glob("*.json"), key=lambda path: int(path.stem))
        return [read_versioned(path, ChunkRecord, _SCHEMA_VERSION, "run") for path in paths]

    def left(self) -> list[ChunkRecord]:
        """Return the chunks that are not over; see `read`."""
        return [record for record in self.read() if record.state != "over"]

    def make(
        self, shape: dict[str, Any], attempts: Sequence[tuple[int, int]], per_unit: int
    ) -> ChunkRecord:
        """Return a chunk with an unused number, without writing it."""
        if self._next is None:
            # A runner that was killed may have left only some files of a chunk.
            numbers = (int(path.stem) for path in self.directory.glob("[0-9]*"))
            self._next = max(numbers, default=-1) + 1
        number, self._next = self._next, self._next + 1
        return ChunkRecord(
            number=number,
            name=chunk_name(self._run, number),
            nonce=secrets.token_hex(8),
            shape=shape,
            attempts=tuple(attempts),
            per_unit=per_unit,
            made_at=datetime.now(UTC),
        )

    def write(self, record: ChunkRecord, elements: Sequence[AttemptSpec] | None = None) -> None:
        """Write a chunk's record, after its elements where given.

        Raises:
            StorageError: A file cannot be written.
        """
        path = self.directory / f"{record.number:04d}.json"
        if elements is not None:
            with storage_errors(self.spec(record)):
                # mkdir fails where another runner works on this run, so the number belongs to one
                # runner.
                self.output(record).mkdir(parents=True)
                Chunk(self.spec(record)).write([*elements])
        write_text(path, record.model_dump_json() + "\n")

    def spec(self, record: ChunkRecord) -> Path:
        """Return the file of a chunk's elements."""
        return self.directory / f"{record.number:04d}.spec"

    def output(self, record: ChunkRecord) -> Path:
        """Return the directory for the engine's own output about a chunk's units."""
        return self.directory / f"{record.number:04d}"
