"""SkyPilot tasks, which open a machine for a job. Tarmac writes them and reads none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.documents import Document
from tarmac.errors import RequestError
from tarmac.formats.format import Format, Reading, Written
from tarmac.formats.skypilot.writing import write_skypilot
from tarmac.jobs import Job

__all__ = ["SKYPILOT", "write_skypilot"]

# Keys beside `run` that no other built-in format has.
_OWN = frozenset(("setup", "num_nodes", "workdir", "file_mounts"))


def _looks_like(value: Any) -> bool:
    # One key alone may be a mistake in a file of another format.
    return isinstance(value, dict) and "run" in value and bool(_OWN & {*value})


def _read(documents: Sequence[Document], environment: Mapping[str, str]) -> Reading:
    del environment
    document = documents[-1]
    line, column = document.place_of(("run",))
    raise RequestError(
        f"{document.name}:{line}:{column}: run: this is a task of SkyPilot's: Tarmac writes such "
        "files, but does not read them",
        hint="sky launch takes it; tarmac run takes the job that it carries",
    )


def _write(jobs: Sequence[Job], directory: Path) -> Written:
    (job,) = jobs
    return Written(*write_skypilot(job, directory))


SKYPILOT = Format(
    name="skypilot",
    title="SkyPilot",
    looks_like=_looks_like,
    read=_read,
    write=_write,
    holds_several=False,
)
