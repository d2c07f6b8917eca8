"""A run's directory: made whole, written crash-safe, worked on by one process at a time."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.files import (
    Shape,
    append_lines,
    is_held,
    journal_text,
    new_directory,
    open_lock,
    output_errors,
    read_lines,
    write_json,
    write_text,
)
from tarmac.runs.events import EventWriter
from tarmac.runs.judging import JudgedBy
from tarmac.runs.record import (
    SCHEMA_VERSION,
    GitState,
    Parallel,
    RunRecord,
    Session,
    now,
    read_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

_BY_ACCURACY = JudgedBy()

_ROW = Shape({"epoch": "whole number"}, {"at_s": "seconds", "seconds": "seconds"})


class Run:
    """One execution and its directory.

    Args:
        path: The directory, which exists.
        record: What its ``run.json`` says.
    """

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record

    @classmethod
    def create(
        cls,
        output: Path,
        *,
        workload: str,
        command: Sequence[str],
        configuration: Mapping[str, Any],
        dataset: Mapping[str, Any],
        device: Mapping[str, Any],
        versions: Mapping[str, str],
        seed: int,
        git: GitState | None,
        expectation: Mapping[str, Any] | None,
        parallel: Parallel | None = None,
        launch: str = "",
        name: str | None = None,
        judged_by: JudgedBy = _BY_ACCURACY,
    ) -> Run:
        """Make a run's directory under ``output``.

        It is named for the workload and the time, unless ``name`` says otherwise.

        Raises:
            RequestError: ``output`` cannot be written, and nothing was made there; or there is a
                run of that name; or it is none that a directory in ``output`` can have.
        """
        if name is not None and not _is_a_directorys(name):
            raise RequestError(f"name is {name!r}, expected that of a directory, not hidden")
        created_at = now()
        run_id = secrets.token_hex(8)
        # A workload's name is the user's; only what is safe in a file's name goes into one.
        safe = (
            "".join(c if c.isalnum() or c in "-_." else "-" for c in workload).lstrip(".") or "run"
        )
        path = output / (name or f"{safe}-{created_at:%Y%m%d-%H%M%S}-{run_id[:4]}")
        if name is None and path.exists():
            # Of two that begin in one second, one in 65,536 has the other's digits.
            path = output / f"{safe}-{created_at:%Y%m%d-%H%M%S}-{run_id}"
        if (path / "run.json").exists():
            raise RequestError(
                f"there is a run {path.name} in {output} already",
                hint="Resume it, or take another name.",
            )
        record = RunRecord(
            id=run_id,
            workload=workload,
            status="running",
            created_at=created_at,
            command=tuple(command),
            configuration=dict(configuration),
            dataset=dict(dataset),
            device=dict(device),
            parallel=parallel,
            launch=launch,
            versions=dict(versions),
            seed=seed,
            git=git,
            expectation=None if expectation is None else dict(expectation),
            judged_by=judged_by,
        )
        with output_errors("runs", output):
            if name is not None and path.exists():
                # Whoever gave the name has made it, and may keep other files there.
                (path / "checkpoints").mkdir(exist_ok=True)
                cls(path, record)._write()
            else:
                with new_directory(path) as made:
                    (made / "checkpoints").mkdir()
                    cls(made, record)._write()
        return cls(path, record)

    @classmethod
    def open(cls, path: Path) -> Run:
        """Open a run's directory.

        Raises:
            RequestError: It is not a run, or one of a newer Tarmac.
            TarmacError: Its ``run.json`` is damaged.
        """
        return cls(path, read_record(path / "run.json"))

    def __repr__(self) -> str:
        metrics = ", ".join(f"{name}={value:.4g}" for name, value in self.metrics.items())
        return f"<Run {self.path} {self.status}{': ' if metrics else ''}{metrics}>"

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.path.name

    @property
    def status(self) -> str:
        """How the run stands; ``interrupted`` where it says running but no process works on it."""
        if self.record.status == "running" and not is_held(self._lock):
            return "interrupted"
        return self.record.status

    @property
    def checkpoints(self) -> Path:
        """The directory of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """The trained weights, once there are."""
        return self.path / "model.safetensors"

    @property
    def metrics(self) -> Mapping[str, float]:
        """The final metrics; empty before the run is completed."""
        return self.record.metrics

    @property
    def history(self) -> list[dict[str, float]]:
        """The rows of ``metrics.jsonl``, one per epoch, without a last line that was torn off.

        Raises:
            TarmacError: Any other line is none of an epoch.
        """
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        lines = read_lines(path, _row_problem)
        for line in lines.damaged:
            raise TarmacError(
                f"{path}:{line.number} is damaged: {line.reason}",
                hint="Without that line the figures of its epoch are lost, and nothing else:\n"
                f"sed -i.damaged {line.number}d {quoted(path)}",
            )
        return [*lines.values]

    def update(self, **changes: Any) -> None:
        """Change fields of the record and write ``run.json`` anew.

        Raises:
            StorageError: It could not be written; the old one is still there.
        """
        fields = self.record.model_dump() | {"schema_version": SCHEMA_VERSION} | changes
        self.record = RunRecord.model_validate(fields)
        self._write()

    def append_metrics(self, row: Mapping[str, float]) -> None:
        """Append an epoch's line to ``metrics.jsonl``, on the disk when this returns.

        Raises:
            StorageError: It could not be written.
        """
        append_lines(self.path / "metrics.jsonl", [row], is_durable=True)

    def truncate_metrics(self, keep: Callable[[Mapping[str, float]], bool]) -> None:
        """Drop the rows that ``keep`` refuses, and a torn last line."""
        path = self.path / "metrics.jsonl"
        if path.exists():
            kept = [row for row in self.history if keep(row)]
            write_text(path, journal_text(kept))

    @contextlib.contextmanager
    def events(self, *, first_step: int) -> Iterator[EventWriter]:
        """Open TensorBoard's events in the run's directory.

        Args:
            first_step: Points of this step and later, from before an interruption, are dropped.
        """
        writer = EventWriter(self.path, first_step=first_step)
        try:
            yield writer
        finally:
            writer.close()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep all other processes from working on the run or removing it.

        Raises:
            RequestError: Another process does, or has removed it.
        """
        lock = open_lock(self._lock)
        try:
            # Where the directory is gone its lock cannot be made.
            with contextlib.suppress(FileNotFoundError):
                if not lock.acquire():
                    raise RequestError(f"run {self.name} is being worked on by another process")
            if not (self.path / "run.json").exists():
                raise RequestError(f"run {self.name} has been removed")
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Hold the run while working on it; the hold ends with the process, however it ends.

        Raises:
            RequestError: Another process works on it.
        """
        with self.held():
            session = Session(started_at=now(), pid=os.getpid())
            sessions = [s.model_dump() for s in (*self.record.sessions, session)]
            self.update(status="running", ended_at=None, error=None, sessions=sessions)
            yield

    @property
    def _lock(self) -> Path:
        return self.path / ".lock"

    def _write(self) -> None:
        write_json(self.path / "run.json", self.record.model_dump(mode="json"))


def _row_problem(row: Any) -> str | None:
    """Return why a line of ``metrics.jsonl`` is none of an epoch, all of which is numbers."""
    if isinstance(row, dict):
        return Shape(dict.fromkeys(row, "number")).problem_of(row) or _ROW.problem_of(row)
    return _ROW.problem_of(row)


def _is_a_directorys(name: str) -> bool:
    """Whether a directory of runs may have one of this name: a file's that begins with no dot."""
    return bool(name) and not name.startswith(".") and "/" not in name and "\0" not in name
