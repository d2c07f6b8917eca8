"""Report pages: one file each, of a training, a search, a job, a check, or several.

`Page` and `render_page` are the house style; `tarmac.pages.plots`, ``lanes``, ``bars`` and
``matrix`` draw, ``pieces`` has tables and figures.
"""

from tarmac.pages.bars import Bar, bars, stacked_bars
from tarmac.pages.by_kind import page_of, report
from tarmac.pages.job import job_page
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
    "chip",
    "details",
    "facts",
    "flat",
    "histogram",
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
