"""The page for a path: a run of any kind, or several runs to compare."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError
from tarmac.pages.page import Live, Page, render_page

if TYPE_CHECKING:
    from tarmac.runs import RunKind

# By a run's record file: the package and name of its kind, the module and function of its page.
# They are imported on demand: a training's page needs no Optuna.
_PAGES = {
    "run.json": ("tarmac.runs", "TRAINING", "tarmac.pages.training", "training_page"),
    "job-run.json": ("tarmac.jobs", "JOB", "tarmac.pages.job", "job_page"),
    "study.json": ("tarmac.studies", "SEARCH", "tarmac.pages.search", "search_page"),
}


def report(paths: Sequence[Path], *, live: Live | None = None) -> str:
    """Return the page of a run, or of several runs side by side, as standalone HTML.

    Args:
        paths: Directory of a run, or directories of several runs to compare.
        live: Server settings of the page. None for a file.

    Raises:
        RequestError: A path is no run, or of a newer Tarmac; or the runs are of different kinds.
        TarmacError: The record of a run is damaged.
    """
    return render_page(page_of(paths), live=live)


def page_of(paths: Sequence[Path]) -> Page:
    """Return the page that `report` renders.

    Args:
        paths: Directories of runs; or one path that `is_apart`.

    Raises:
        RequestError: See `report` for the reasons.
        TarmacError: See `report` for the reasons.
    """
    if not paths:
        raise RequestError("no run is named, expected at least one")
    for path in paths:
        _imported("tarmac.jobs", "learn_marks")(path)
    if len(paths) == 1:
        return _page_of_one(paths[0])
    kinds = [_kind(_record_of(path)) for path in paths]
    if len(different := {kind.name: kind for kind in kinds}) > 1:
        raise RequestError(f"runs of one kind can be compared, not {' and '.join(different)}")
    page: Page = _imported("tarmac.pages.comparison", "comparison_page")(kinds[0], paths)
    return page


def _page_of_one(path: Path) -> Page:
    if _is_report(path):
        kept = _imported("tarmac.checks", "read_report")(path)
        checked: Page = _imported("tarmac.pages.check", "check_page")(kept)
        return checked
    record = _find(path)
    if record is None and _imported("tarmac.pages.task", "is_task")(path):
        module, name = "tarmac.pages.task", "task_page"
    else:
        _, _, module, name = _PAGES[_record_of(path)]
    page: Callable[[Path], Page] = _imported(module, name)
    return page(path)


def is_apart(path: Path) -> bool:
    """Return whether a path has a page but is no run: a job's task, or a check's report file."""
    is_task: bool = _imported("tarmac.pages.task", "is_task")(path)
    return _is_report(path) or is_task


def _is_report(path: Path) -> bool:
    return path.suffix == ".json" and path.is_file()


def _find(path: Path) -> str | None:
    return next((record for record in _PAGES if (path / record).exists()), None)


def _record_of(path: Path) -> str:
    record = _find(path)
    if record is not None:
        return record
    raise RequestError(
        f"{path} is no run: it has none of {', '.join(_PAGES)}",
        hint="See what there is: tarmac runs list",
    )


def _kind(record: str) -> RunKind:
    room, name, _, _ = _PAGES[record]
    kind: RunKind = _imported(room, name)
    return kind


def _imported(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
