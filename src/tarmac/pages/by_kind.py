"""Finds the page of what a path is: a run of any kind, or several to compare."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.jobs import JOB
from tarmac.pages.comparison import comparison_page
from tarmac.pages.job import job_page
from tarmac.pages.page import render_page
from tarmac.pages.search import search_page
from tarmac.pages.task import is_task, task_page
from tarmac.pages.training import training_page
from tarmac.runs import TRAINING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tarmac.pages.page import Live, Page
    from tarmac.runs import RunKind

__all__ = ["page_of", "report"]


@dataclasses.dataclass(frozen=True)
class _Shown:
    """A kind of run that has a page."""

    kind: RunKind
    page: Callable[[Path], Page]


def report(paths: Sequence[Path], *, live: Live | None = None) -> str:
    """Return the page of a run, or of several side by side, as HTML that stands alone.

    Args:
        paths: Directories of runs.
        live: Where the page is served; None for a file.

    Raises:
        RequestError: A path is no run, or one of a newer Tarmac; or runs of different kinds are to
            be compared.
        TarmacError: A run is damaged.
    """
    return render_page(page_of(paths), live=live)


def page_of(paths: Sequence[Path]) -> Page:
    """Return the page that `report` renders.

    Args:
        paths: Directories of runs, or one of a job's task.

    Raises:
        RequestError: As `report`.
        TarmacError: As `report`.
    """
    if not paths:
        raise RequestError("no run is named, expected at least one")
    if len(paths) == 1 and is_task(paths[0]):
        return task_page(paths[0])
    shown = [_find(path) for path in paths]
    if len(paths) == 1:
        return shown[0].page(paths[0])
    kinds = list(dict.fromkeys(one.kind.name for one in shown))
    if len(kinds) > 1:
        raise RequestError(f"runs of one kind can be compared, not {' and '.join(kinds)}")
    return comparison_page(shown[0].kind, paths)


def _find(path: Path) -> _Shown:
    known = _known()
    for one in known:
        if (path / one.kind.record).is_file():
            return one
    records = ", ".join(one.kind.record for one in known)
    raise RequestError(
        f"{path} is no run: it has none of {records}",
        hint="See what there is: tarmac runs list",
    )


def _known() -> tuple[_Shown, ...]:
    from tarmac.studies import SEARCH  # noqa: PLC0415 - only where a run's kind is asked for

    return (
        _Shown(TRAINING, training_page),
        _Shown(JOB, job_page),
        _Shown(SEARCH, search_page),
    )
