"""Report pages: one HTML file for a training, a search, a job, a check, or several runs.

`Page` and `render_page` define the layout of all pages. `tarmac.pages.plots`, ``lanes``, ``bars``
and ``matrix`` draw plots, ``pieces`` has tables and tiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.lazy import lazy_names
from tarmac.pages.bars import Bar as Bar
from tarmac.pages.bars import bars as bars
from tarmac.pages.bars import stacked_bars as stacked_bars
from tarmac.pages.components import Tile as Tile
from tarmac.pages.components import chip as chip
from tarmac.pages.components import details as details
from tarmac.pages.components import facts as facts
from tarmac.pages.components import flat as flat
from tarmac.pages.components import message as message
from tarmac.pages.components import paragraph as paragraph
from tarmac.pages.components import pre as pre
from tarmac.pages.components import table as table
from tarmac.pages.components import tiles as tiles
from tarmac.pages.lanes import Lane as Lane
from tarmac.pages.lanes import Span as Span
from tarmac.pages.lanes import lanes as lanes
from tarmac.pages.matrix import matrix as matrix
from tarmac.pages.numbers import moment as moment
from tarmac.pages.numbers import worded as worded
from tarmac.pages.page import Link as Link
from tarmac.pages.page import Live as Live
from tarmac.pages.page import Page as Page
from tarmac.pages.page import Section as Section
from tarmac.pages.page import page_parts as page_parts
from tarmac.pages.page import render_page as render_page
from tarmac.pages.plots import Mark as Mark
from tarmac.pages.plots import Point as Point
from tarmac.pages.plots import Series as Series
from tarmac.pages.plots import histogram as histogram
from tarmac.pages.plots import line_plot as line_plot
from tarmac.pages.plots import scatter as scatter
from tarmac.pages.plots import sparkline as sparkline
from tarmac.pages.scales import Axis as Axis
from tarmac.pages.states import STATES as STATES

if TYPE_CHECKING:
    from tarmac.pages.by_kind import is_apart as is_apart
    from tarmac.pages.by_kind import page_of as page_of
    from tarmac.pages.by_kind import report as report
    from tarmac.pages.check import check_page as check_page
    from tarmac.pages.job import job_page as job_page
    from tarmac.pages.search import search_page as search_page
    from tarmac.pages.task import is_task as is_task
    from tarmac.pages.task import task_page as task_page
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
