"""The page for a path: a run of any kind, or several runs to compare."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tarmac.errors import RequestError
from tarmac.pages.page import Live, Page, render_page
from tarmac.run_kinds import RECORDS, kind_at, load_kind

# Module and function of the page of each kind, imported on demand.
_PAGES = {
    "training": ("tarmac.pages.training", "training_page"),
    "job": ("tarmac.pages.job", "job_page"),
    "search": ("tarmac.pages.search", "search_page"),
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
    kind, *others = dict.fromkeys(map(_kind_of, paths))
    if others:
        names = " and ".join([kind, *others])
        raise RequestError(f"runs of one kind can be compared, not {names}")
    page: Page = _imported("tarmac.pages.comparison", "comparison_page")(load_kind(kind), paths)
    return page


def _page_of_one(path: Path) -> Page:
    if _is_report(path):
        kept = _imported("tarmac.checks", "read_report")(path)
        checked: Page = _imported("tarmac.pages.check", "check_page")(kept)
        return checked
    if kind_at(path) is None and _imported("tarmac.pages.task", "is_task")(path):
        module, name = "tarmac.pages.task", "task_page"
    else:
        module, name = _PAGES[_kind_of(path)]
    page: Callable[[Path], Page] = _imported(module, name)
    return page(path)


def is_apart(path: Path) -> bool:
    """Return whether a path has a page but is no run: a job's task, or a check's report file."""
    is_task: bool = _imported("tarmac.pages.task", "is_task")(path)
    return _is_report(path) or is_task


def _is_report(path: Path) -> bool:
    return path.suffix == ".json" and path.is_file()


def _kind_of(path: Path) -> str:
    kind = kind_at(path)
    if kind is not None:
        return kind
    raise RequestError(
        f"{path} is not a run: it has none of {', '.join(RECORDS.values())}",
        hint="List the runs: tarmac runs list",
    )


def _imported(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
