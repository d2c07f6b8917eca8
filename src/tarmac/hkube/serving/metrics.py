"""TensorBoard events in ``ALGO_METRICS_DIR``, where HKube looks for them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tarmac.files import StorageError
from tarmac.runs import EventWriter, Run


class TaskEvents:
    """The events of a task, in a directory that HKube uploads after it.

    Neither Tarmac nor HKube removes files there. TensorBoard shows the newest of several trainings,
    because its events end all earlier ones. A failed write is logged and does not end the training.

    Args:
        directory: Directory from ``ALGO_METRICS_DIR``. None: no events.
        say: Function that writes a line to the log.
    """

    def __init__(self, directory: Path | None, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._say = say
        self._writer: EventWriter | None = None

    def begin(self, run: Run) -> None:
        """Open an event file, and write the epochs that a run has already finished."""
        # A training that lost a worker process starts again.
        self.close()
        # HKube uploads a run inside the directory together with the run's own events.
        if self._directory is None or run.path.resolve().is_relative_to(self._directory.resolve()):
            return
        with self._failure_said():
            self._directory.mkdir(parents=True, exist_ok=True)
            self._writer = EventWriter(self._directory, first_step=0)
        for row in run.history:
            self.write(row)

    def write(self, row: Mapping[str, float]) -> None:
        """Write each value of a line of ``metrics.jsonl`` as a point at its ``epoch``."""
        if self._writer is None:
            return
        with self._failure_said():
            for tag in sorted(row.keys() - {"epoch"}):
                self._writer.scalar(tag, row[tag], int(row["epoch"]))

    def close(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    @contextlib.contextmanager
    def _failure_said(self) -> Iterator[None]:
        try:
            yield
        except (OSError, StorageError) as error:
            self._say(f"no TensorBoard events in {self._directory}: {error}")
            self.close()
