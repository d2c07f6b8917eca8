"""Report pages: one file each, of a training, a search, a job, a check, or several.

`Page` and `render_page` are the house style; `tarmac.pages.plots`, ``lanes``, ``bars`` and
``matrix`` draw, ``pieces`` has tables and figures.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tarmac.pages.bars import Bar, bars, stacked_bars
from tarmac.pages.lanes import Lane, Span, lanes
from tarmac.pages.matrix import matrix
from tarmac.pages.numbers import moment, worded
from tarmac.pages.page import Link, Live, Page, Section, page_parts, render_page
from tarmac.pages.pieces import (
    Tile,
    chip,
    details,
    facts,
    flat,
    message,
    paragraph,
    pre,
    table,
    tiles,
)
from tarmac.pages.plots import Mark, Point, Series, histogram, line_plot, scatter, sparkline
from tarmac.pages.scales import Axis

if TYPE_CHECKING:
    from tarmac.pages.by_kind import is_apart, page_of, report
    from tarmac.pages.check import check_page
    from tarmac.pages.job import job_page
    from tarmac.pages.search import search_page
    from tarmac.pages.task import is_task, task_page

__all__ = [
    "Axis",
    "Bar",
    "Lane",
    "Link",
    "Live",
    "Mark",
    "Page",
    "Point",
    "Section",
    "Series",
    "Span",
    "Tile",
    "bars",
    "check_page",
    "chip",
    "details",
    "facts",
    "flat",
    "histogram",
    "is_apart",
    "is_task",
    "job_page",
    "lanes",
    "line_plot",
    "matrix",
    "message",
    "moment",
    "page_of",
    "page_parts",
    "paragraph",
    "pre",
    "render_page",
    "report",
    "scatter",
    "search_page",
    "sparkline",
    "stacked_bars",
    "table",
    "task_page",
    "tiles",
    "worded",
]

# Names whose modules read runs, and need what such runs need: Optuna for a search's.
_MODULES = {
    "check_page": "check",
    "is_apart": "by_kind",
    "is_task": "task",
    "job_page": "job",
    "page_of": "by_kind",
    "report": "by_kind",
    "search_page": "search",
    "task_page": "task",
}


def __getattr__(name: str) -> object:
    """Import a module that reads runs when a name of it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
