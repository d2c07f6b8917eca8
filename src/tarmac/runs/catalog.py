"""Finds runs: by path, by name, by a prefix, or all of them."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

from tarmac.errors import RequestError, TarmacError
from tarmac.files import storage_errors
from tarmac.runs.directory import Run

__all__ = ["BrokenRun", "default_output", "list_runs", "remove", "resolve"]


@dataclasses.dataclass(frozen=True)
class BrokenRun:
    """A directory with a ``run.json`` that cannot be read, and why."""

    path: Path
    reason: str


def default_output() -> Path:
    """Return where runs are made by default: ``TARMAC_RUNS``, else ``./runs``."""
    return Path(os.environ.get("TARMAC_RUNS") or "runs")


def list_runs(output: Path | None = None) -> tuple[list[Run], list[BrokenRun]]:
    """Return the runs under a directory, the newest first, and those that cannot be read."""
    found: list[Run] = []
    broken: list[BrokenRun] = []
    for path in sorted((output or default_output()).glob("*/run.json")):
        try:
            found.append(Run.open(path.parent))
        except TarmacError as error:
            broken.append(BrokenRun(path.parent, error.message))
    found.sort(key=lambda run: run.record.created_at, reverse=True)
    return found, broken


def resolve(reference: str, output: Path | None = None) -> Run:
    """Find one run.

    Args:
        reference: A path, a name, the beginning of a name or an id, or ``"latest"``.
        output: Where runs lie; `default_output` if not given.

    Raises:
        RequestError: None fits, or more than one.
    """
    path = Path(reference)
    if (path / "run.json").exists():
        return Run.open(path)
    root = output or default_output()
    if (root / reference / "run.json").exists():
        return Run.open(root / reference)
    found, _ = list_runs(root)
    if reference == "latest" and found:
        return found[0]
    fitting = [
        run
        for run in found
        if run.name.startswith(reference) or run.record.id.startswith(reference)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = "\n".join(run.name for run in fitting)
        raise RequestError(f"run {reference!r} is not unique in {root}", hint=names)
    names = "\n".join(run.name for run in found[:10]) or "(none)"
    raise RequestError(f"there is no run {reference!r} in {root}", hint=f"Newest there:\n{names}")


def remove(run: Run) -> None:
    """Delete a run's directory.

    Raises:
        RequestError: A process is working on it.
        StorageError: It cannot be deleted.
    """
    try:
        with run.held(), storage_errors(run.path):
            shutil.rmtree(run.path)
    except RequestError as error:
        sessions = run.record.sessions
        hint = f"Stop it first: kill {sessions[-1].pid}" if sessions else None
        raise RequestError(error.message, hint=hint) from None
