"""Trainings as a kind of run, for the run catalogue."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.runs.catalogue import Catalogue
from tarmac.runs.directory import Run
from tarmac.runs.judging import JudgedBy, name_words
from tarmac.runs.kind import BrokenRun, RunFacts, RunKind, RunSummary
from tarmac.wording import number_text

if TYPE_CHECKING:
    from pydantic.main import IncEx

# Settings and environment; all other keys differ between any two runs.
_COMPARED: Mapping[str, IncEx | bool] = {
    "configuration": True,
    "dataset": True,
    "device": True,
    "parallel": {"world_size", "backend"},
    "versions": True,
    "git": True,
}


def list_runs(output: Path | None = None) -> tuple[list[Run], list[BrokenRun]]:
    """Return the trainings below a directory, newest first, and the unreadable runs.

    Args:
        output: Directory of the runs; by default `tarmac.runs.default_output`.
    """
    runs, broken = Catalogue((TRAINING,), output).read(lambda entry: Run.open(entry.path))
    runs.sort(key=lambda run: run.record.created_at, reverse=True)
    return runs, broken


def resolve(reference: str, output: Path | None = None) -> Run:
    """Return a training by its reference; see `Catalogue.find`."""
    return Run.open(Catalogue((TRAINING,), output).find(reference).path)


def facts_of(run: Run) -> RunFacts:
    """Return the facts of a training that are compared."""
    judged = run.record.judged_by
    return RunFacts(
        settings=run.record.model_dump(mode="json", include=_COMPARED),
        metrics=run.metrics,
        judged_by=judged,
        curve=_curve(run, judged),
    )


def _curve(run: Run, judged: JudgedBy) -> list[float]:
    """Return the judged metric by epoch: on held-out data, else in training."""
    history = run.history
    for name in (judged.of("val"), judged.metric):
        if any(name in row for row in history):
            return [row[name] for row in history if name in row]
    return []


def _summarize(path: Path) -> RunSummary:
    run = Run.open(path)
    judged = run.record.judged_by
    test = run.metrics.get(judged.of("test"))
    met = (run.record.expectation or {}).get("met")
    expected = "" if met is None else ", as expected" if met else ", not as expected"
    return RunSummary(
        kind=TRAINING.name,
        path=path,
        status=run.status,
        created_at=run.record.created_at,
        elapsed_s=run.record.elapsed_s,
        workload=run.record.workload,
        result="" if test is None else f"{name_words(judged.metric)} {number_text(test)}{expected}",
        metrics=run.metrics,
    )


@contextlib.contextmanager
def _reserved(path: Path) -> Iterator[None]:
    run = Run.open(path)
    try:
        with run.held():
            yield
    except RequestError as error:
        sessions = run.record.sessions
        hint = f"Stop it first: kill {sessions[-1].pid}" if sessions else None
        raise RequestError(error.message, hint=hint) from None


TRAINING = RunKind(
    name="training",
    record="run.json",
    marks=(),
    # A resume of an interrupted run changes its record.
    settled=frozenset({"completed", "interrupted", "failed"}),
    summarize=_summarize,
    facts=lambda path: facts_of(Run.open(path)),
    # Only trainings of several processes have logs; a single process prints to its terminal.
    logs=lambda path: sorted((path / "logs").glob("rank-*")),
    reserved=_reserved,
)
