"""``RUN/chunks``: what a run has handed to an engine, written down before the engine is asked.

``0003.spec`` and ``0003.index`` are for the agents, ``0003.json`` is for the next session of the
run, and the directory ``0003`` gets what the engine itself prints.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 - Pydantic reads it
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from tarmac.files import read_versioned, storage_errors, write_text
from tarmac.jobs.executors.queueing.clusters import ClusterId  # noqa: TC001 - Pydantic reads it
from tarmac.node import Chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.node import Element

_SCHEMA_VERSION = 2

# With the run's code, numbers and what Kubernetes adds, a name has 63 characters at most.
_LABEL_LENGTH = 30

# Of a run's directory: when it was made, and what tells it from others of that second. A dry run
# has no time.
_RUN_SUFFIX = re.compile(r"-(?:\d{8}-\d{6}-[0-9a-z]+|RUN)$")


class ChunkRecord(BaseModel):
    """A chunk: attempts of one shape that an engine gets at once.

    Attributes:
        schema_version: Version of this file's layout. Default 2, the newest.
        number: Number of the chunk in its run, from 0.
        name: Unique name by which the engine knows the chunk.
        nonce: Random hex text that marks the chunk's attempts in their records.
        shape: What its units need, as `Engine.shape` says it.
        attempts: Pairs of a task's index and an attempt's number, in the order of the elements.
        per_unit: Attempts that each unit runs, one after another. Default 1.
        state: ``written`` before the engine is asked, ``submitted`` once it has answered, ``over``
            once nothing of it is at work any more.
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
        """How many units it has."""
        return -(-len(self.attempts) // self.per_unit)


def chunk_name(run: Path, number: int) -> str:
    """Return the name that an engine knows a chunk by: the same for whoever asks."""
    return f"{job_label(run)}-{run_code(run)}-{number:04d}"


def job_label(run: Path) -> str:
    """Return the job's name for engines: a DNS label of at most 30 characters, ``sweep``.

    It comes first in the names of a run's jobs, as squeue shows 8 characters.
    """
    name = re.sub(r"[^a-z0-9]+", "-", _RUN_SUFFIX.sub("", run.name).lower()).strip("-")
    name = name if name[:1].isalpha() else f"tarmac-{name}"
    return name[:_LABEL_LENGTH].strip("-")


def run_code(run: Path) -> str:
    """Return what a run's jobs have in their names; runs of equal names elsewhere have another."""
    return hashlib.sha256(str(run).encode()).hexdigest()[:8]


class ChunkFiles:
    """The chunks of a run.

    Args:
        run: The run's directory; the chunks are below ``chunks/``.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self.directory = run / "chunks"
        self._next: int | None = None

    @property
    def job_label(self) -> str:
        """The job's name for engines; see `job_label`."""
        return job_label(self._run)

    def read(self) -> list[ChunkRecord]:
        """Return all chunks, in the order in which they were made.

        Raises:
            TarmacError: One is damaged, or cannot be read.
            RequestError: One was written by a newer Tarmac.
        """
        paths = sorted(self.directory.glob("*.json"), key=lambda path: int(path.stem))
        return [read_versioned(path, ChunkRecord, _SCHEMA_VERSION, "run") for path in paths]

    def left(self) -> list[ChunkRecord]:
        """Return the chunks that are not over; see `read`."""
        return [record for record in self.read() if record.state != "over"]

    def make(
        self, shape: dict[str, Any], attempts: Sequence[tuple[int, int]], per_unit: int
    ) -> ChunkRecord:
        """Return a chunk with a number of its own; nothing is written yet."""
        if self._next is None:
            # Of one whose runner was killed meanwhile there may be a part.
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

    def write(self, record: ChunkRecord, elements: Sequence[Element] | None = None) -> None:
        """Write a chunk down, its elements first where they are given.

        Raises:
            StorageError: It cannot be written.
        """
        path = self.directory / f"{record.number:04d}.json"
        if elements is not None:
            with storage_errors(self.spec(record)):
                # Its number is this runner's alone, also where another believes that it works here.
                self.output(record).mkdir(parents=True)
                Chunk(self.spec(record)).write([*elements])
        write_text(path, record.model_dump_json() + "\n")

    def spec(self, record: ChunkRecord) -> Path:
        """Return the file of a chunk's elements."""
        return self.directory / f"{record.number:04d}.spec"

    def output(self, record: ChunkRecord) -> Path:
        """Return the directory of what the engine itself prints about a chunk's units."""
        return self.directory / f"{record.number:04d}"
