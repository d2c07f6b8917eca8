"""What a stage says: its figures, its parts that failed, its files; kept after every part."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from _harness import machine_facts, results_files
from gpu_driver.records import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_MAX_ERROR = 8000


class Skip(Exception):  # noqa: N818 - no error: what the stage needs is not here
    """The stage cannot run here; the text says what is missing."""


class Report:
    """A stage's answer, rewritten as a whole whenever something is added.

    Args:
        directory: Which gets ``answer.json``, ``results/`` and ``artifacts/``.
        seconds: How long the stage may take.

    Attributes:
        result: What was measured.
        errors: Of each part that failed, by its name: a line, then the traceback.
        scratch: A directory for what the stage needs meanwhile.
    """

    def __init__(self, directory: Path, seconds: float) -> None:
        self.result: dict[str, Any] = {}
        self.errors: dict[str, str] = {}
        self.scratch = directory / "scratch"
        self._directory = directory
        self._end = time.monotonic() + seconds
        self._skipped = ""
        self._machine = machine_facts()
        self.scratch.mkdir(parents=True, exist_ok=True)
        self._save()

    @property
    def seconds_left(self) -> float:
        """Until the stage is ended."""
        return self._end - time.monotonic()

    def keep(self, name: str, value: Any) -> None:
        """Add a figure, in place of an earlier one of this name."""
        self.result[name] = value
        print(f"{name}: {json.dumps(value)[:2000]}", flush=True)
        self._save()

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Note what a part raises, so that the others run all the same."""
        try:
            yield
        except Skip:
            raise
        except Exception as error:
            text = traceback.format_exc()
            # Its message may have many lines, of which the last say little.
            summary = f"{type(error).__name__}: {error}".splitlines()[0]
            self.errors[name] = f"{summary}\n\n{text[-_MAX_ERROR:]}"
            print(text, file=sys.stderr, flush=True)
            self._save()

    def skip(self, reason: str) -> None:
        """Say why the stage does not run."""
        self._skipped = reason
        self._save()

    def file(self, name: str, text: str) -> None:
        """Leave a file of the repository, by its path there."""
        write_whole(self._directory / "results" / name, text)

    def page(self, name: str, data: Mapping[str, Any], text: str) -> None:
        """Leave a benchmark's figures as JSON and as a page, as `write_results` names them."""
        for path, content in results_files(name, data, text, gpu=True).items():
            self.file(f"bench/results/{path}", content)

    def artifact(self, name: str) -> Path:
        """Return where a file goes that is for whoever looks into this run."""
        path = self._directory / "artifacts" / name
        path.parent.mkdir(exist_ok=True)
        return path

    def forget_scratch(self) -> None:
        """Remove what the stage needed meanwhile."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()

    def _save(self) -> None:
        answer = {"skipped": self._skipped, "result": self.result, "errors": self.errors}
        text = json.dumps(answer | {"machine": self._machine})
        write_whole(self._directory / "answer.json", text)
