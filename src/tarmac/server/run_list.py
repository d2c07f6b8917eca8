"""The page of all runs: running and ended ones, and a choice to compare."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from datetime import UTC
from urllib.parse import quote

from markupsafe import Markup

from tarmac.pages import STATES, Page, Section, Tile, chip, paragraph, table, tiles, worded
from tarmac.runs import AT_WORK, RunSummary
from tarmac.server.addresses import list_address, run_address
from tarmac.server.listing import Listing

# Rows per page; browsers take a second for a thousand rows.
_ROWS = 100

_TITLES = {"": "Runs", "job": "Jobs", "search": "Searches"}


@dataclasses.dataclass(frozen=True)
class ListQuery:
    """Filter and page number of the list of runs.

    Attributes:
        path: Address of the page: ``/``, ``/jobs`` or ``/searches``.
        kind: Name of the only kind to list. Empty for all kinds.
        text: Words that must all occur in a run's name, kind, workload, status or result.
        number: Number of the page of 100 runs, from 1.
    """

    path: str = "/"
    kind: str = ""
    text: str = ""
    number: int = 1

    def fits(self, name: str, run: RunSummary) -> bool:
        """Return whether a run matches the query."""
        if self.kind and run.kind != self.kind:
            return False
        words = f"{name} {run.kind} {run.workload or ''} {run.status} {run.result}".lower()
        return all(word in words for word in self.text.lower().split())


def run_list_page(listing: Listing, query: ListQuery, output: str) -> Page:
    """Return the page of the runs that match a query.

    Args:
        listing: Listing of all runs, before the query.
        query: Filter and page number of the list.
        output: Directory of the runs, for the page's text.
    """
    runs = {name: run for name, run in listing.runs.items() if query.fits(name, run)}
    num_pages = max(1, -(-len(runs) // _ROWS))
    number = min(query.number, num_pages)
    shown = dict([*runs.items()][(number - 1) * _ROWS : number * _ROWS])
    return Page(
        title=_TITLES[query.kind],
        subtitle=f"In {output}, the newest first.",
        head=_figures(listing, query.kind),
        sections=[
            Section("find", "Find", _search(query)),
            Section("runs", "List", _table(shown, query) + _pages(query, number, num_pages)),
            *_broken(listing, query),
        ],
    )


def _figures(listing: Listing, kind: str) -> Markup:
    statuses = [run.status for run in listing.runs.values() if not kind or run.kind == kind]
    figures = [
        Tile("in all", f"{len(statuses):,}"),
        Tile("at work", f"{sum(status in AT_WORK for status in statuses):,}"),
        Tile("failed", f"{statuses.count('failed'):,}"),
    ]
    if listing.broken and not kind:
        figures.append(Tile("cannot be read", f"{len(listing.broken):,}", state="bad"))
    return tiles(figures)


def _search(query: ListQuery) -> Markup:
    return Markup(
        '<form action="{}" method="get" role="search"><label for="q">Words in the name, workload, '
        'status or result</label> <input type="search" id="q" name="q" value="{}"> '
        "<button>Find</button></form>"
    ).format(query.path, query.text)


def _table(runs: Mapping[str, RunSummary], query: ListQuery) -> Markup:
    if not runs:
        return paragraph(
            "No run matches."
            if query.text
            else "There are no runs yet. Try: tarmac train digits-mlp"
        )
    rows = [_row(name, run) for name, run in runs.items()]
    columns = ("Run", "Kind", "Status", "Began (UTC)", "Took", "Result", "Compare")
    return Markup(
        '<form action="/compare" method="get">{}<p><button>Compare the chosen</button></p></form>'
    ).format(table(columns, rows, label="Runs", numbers=(4,)))


def _row(name: str, run: RunSummary) -> Sequence[str | Markup]:
    began = Markup('<time datetime="{}">{}</time>').format(
        run.created_at.isoformat(), f"{run.created_at.astimezone(UTC):%Y-%m-%d %H:%M}"
    )
    # An id of the run's own, so that a choice survives an update of the list.
    choice = Markup(
        '<input type="checkbox" id="choose-{}" name="run" value="{}" aria-label="Compare {}">'
    ).format(quote(os.fsencode(name)), name, name)
    return (
        Markup('<a href="{}">{}</a>').format(run_address(name), name),
        run.kind,
        chip(run.status, STATES.get(run.status, "plain")),
        began,
        worded(run.elapsed_s, "s"),
        run.result or "-",
        choice,
    )


def _pages(query: ListQuery, number: int, num_pages: int) -> Markup:
    if num_pages == 1:
        return Markup()
    ways = [("Newer", number - 1), ("Older", number + 1)]
    links = Markup(" ").join(
        Markup('<a href="{}">{}</a>').format(
            list_address(query.path, {"q": query.text, "page": other}), text
        )
        for text, other in ways
        if 1 <= other <= num_pages
    )
    return Markup('<nav aria-label="More runs"><p>Page {} of {}. {}</p></nav>').format(
        number, num_pages, links
    )


def _broken(listing: Listing, query: ListQuery) -> Sequence[Section]:
    if not listing.broken or query.kind or query.text:
        return ()
    rows = [
        (Markup('<a href="{}">{}</a>').format(run_address(name), name), run.reason)
        for name, run in listing.broken.items()
    ]
    body = table(("Run", "Why"), rows[:_ROWS], label="Runs that cannot be read")
    return [Section("broken", "Cannot be read", body)]
