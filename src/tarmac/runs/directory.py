"""A run's directory: created whole, written crash-safe, used by one process at a time."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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

_BY_ACCURACY = JudgedBy()

_ROW = Shape({"epoch": "whole number"}, {"at_s": "seconds", "seconds": "seconds"})


class Run:
    """A training's run and its directory.

    Args:
        path: Path of the existing directory.
        record: Content of the directory's ``run.json``.
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
        """Create a run's directory below ``output``.

        The name is ``name``, or else has the workload and the time.

        Raises:
            RequestError: ``output`` cannot be written, and nothing was created; or a run of that
                name exists; or ``name`` is invalid for a directory in ``output``.
        """
        if name is not None and not _is_a_directorys(name):
            raise RequestError(
                f"name is {name!r}, expected a directory's name without a leading dot"
            )
        created_at = now()
        run_id = secrets.token_hex(8)
        # The user chooses a workload's name, so only characters that are safe in file names stay.
        safe = (
            "".join(c if c.isalnum() or c in "-_." else "-" for c in workload).lstrip(".") or "run"
        )
        path = output / (name or f"{safe}-{created_at:%Y%m%d-%H%M%S}-{run_id[:4]}")
        if name is None and path.exists():
            # Of two runs that start in the same second, one pair in 65,536 has the same digits.
            path = output / f"{safe}-{created_at:%Y%m%d-%H%M%S}-{run_id}"
        if (path / "run.json").exists():
            raise RequestError(
                f"there is a run {path.name} in {output} already",
                hint="Resume it, or choose another name.",
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
                # The caller created the named directory, and may keep other files there.
                (path / "checkpoints").mkdir(exist_ok=True)
                cls(path, record)._write()
            else:
                with new_directory(path) as made:
                    (made / "checkpoints").mkdir()
                    cls(made, record)._write()
        return cls(path, record)

    @classmethod
    def open(cls, path: Path) -> Run:
        """Open the directory of a run.

        Raises:
            RequestError: The directory is no run, or a newer Tarmac wrote its record.
            TarmacError: The directory's ``run.json`` is damaged.
        """
        return cls(path, read_record(path / "run.json"))

    def __repr__(self) -> str:
        metrics = ", ".join(f"{name}={value:.4g}" for name, value in self.metrics.items())
        return f"<Run {self.path} {self.status}{': ' if metrics else ''}{metrics}>"

    @property
    def name(self) -> str:
        """The name of the run's directory."""
        return self.path.name

    @property
    def status(self) -> str:
        """The status of the run; ``interrupted`` for a recorded ``running`` without a process."""
        if self.record.status == "running" and not is_held(self._lock):
            return "interrupted"
        return self.record.status

    @property
    def checkpoints(self) -> Path:
        """The directory of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """The path of the trained weights, a file that exists once they are written."""
        return self.path / "model.safetensors"

    @property
    def metrics(self) -> Mapping[str, float]:
        """The final metrics; empty before the run is completed."""
        return self.record.metrics

    @property
    def history(self) -> list[dict[str, float]]:
        """The rows of ``metrics.jsonl``, one per epoch, without an incomplete last line.

        Raises:
            TarmacError: Another line is damaged.
        """
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        lines = read_lines(path, _row_problem)
        for line in lines.damaged:
            raise TarmacError(
                f"{path}:{line.number} is damaged: {line.reason}",
                hint="Deleting that line loses only the metrics of its epoch:\n"
                f"sed -i.damaged {line.number}d {quoted(path)}",
            )
        return [*lines.values]

    def update(self, **changes: Any) -> None:
        """Change fields of the record and rewrite ``run.json``.

        Raises:
            StorageError: The record could not be written; the old one is unchanged.
        """
        fields = self.record.model_dump() | {"schema_version": SCHEMA_VERSION} | changes
        self.record = RunRecord.model_validate(fields)
        self._write()

    def append_metrics(self, row: Mapping[str, float]) -> None:
        """Append an epoch's line to ``metrics.jsonl``; it is on the disk when the call returns.

        Raises:
            StorageError: The line could not be written.
        """
        append_lines(self.path / "metrics.jsonl", [row], is_durable=True)

    def truncate_metrics(self, keep: Callable[[Mapping[str, float]], bool]) -> None:
        """Delete the rows that ``keep`` refuses, and an incomplete last line."""
        path = self.path / "metrics.jsonl"
        if path.exists():
            kept = [row for row in self.history if keep(row)]
            write_text(path, journal_text(kept))

    @contextlib.contextmanager
    def events(self, *, first_step: int) -> Iterator[EventWriter]:
        """Open a TensorBoard event writer in the run's directory.

        Args:
            first_step: Step from which earlier points are dropped, after an interruption.
        """
        writer = EventWriter(self.path, first_step=first_step)
        try:
            yield writer
        finally:
            writer.close()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run's lock, so that no other process works on the run or removes it.

        Raises:
            RequestError: Another process works on the run, or has removed it.
        """
        lock = open_lock(self._lock)
        try:
            # In a removed directory, the lock cannot be created.
            with contextlib.suppress(FileNotFoundError):
                if not lock.acquire():
                    raise RequestError(f"run {self.name} is in use by another process")
            if not (self.path / "run.json").exists():
                raise RequestError(f"run {self.name} has been removed")
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Hold the run's lock and record a session; the lock ends with the process in any case.

        Raises:
            RequestError: Another process works on the run.
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
    """Return why a line of ``metrics.jsonl`` is invalid; all values of an epoch are numbers."""
    if isinstance(row, dict):
        return Shape(dict.fromkeys(row, "number")).problem_of(row) or _ROW.problem_of(row)
    return _ROW.problem_of(row)


def _is_a_directorys(name: str) -> bool:
    """Whether a name is valid for a run's directory: a file name that begins with no dot."""
    return bool(name) and not name.startswith(".") and "/" not in name and "\0" not in name
