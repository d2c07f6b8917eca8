"""A page of the house: its parts as values, and the one file that they become.

A page needs no network and no other file. Everything that is not `markupsafe.Markup` is escaped.

Example:
    >>> asked = Section("asked", "What was asked", Markup("<p>..</p>"))
    >>> page = Page("digits-mlp", sections=[asked])
    >>> render_page(page).startswith("<!doctype html>")
    True
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup

from tarmac.distribution import installed_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FOLDER = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Link:
    """A way to another page: its name, and where it is."""

    text: str
    target: str


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of a page under a heading of its own.

    Attributes:
        id: Unique in the page: letters, digits and hyphens. Links and updates find it by this.
        title: Heading above the section's body.
        body: What is in it.
        note: A sentence below the heading, of what is shown; empty if none.
    """

    id: str
    title: str
    body: Markup
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Page:
    """A page's content.

    Attributes:
        title: What it is about, such as a run's name.
        subtitle: What that is, in a line.
        sections: Sections of the page, from top to bottom.
        status: A word such as ``completed``; empty if none.
        state: How that is shown: ``ok``, ``bad``, ``warn``, ``busy`` or ``plain``.
        head: Beside the title: the figures that matter most; see `tarmac.pages.pieces.tiles`.
    """

    title: str
    subtitle: str = ""
    sections: Sequence[Section] = ()
    status: str = ""
    state: str = "plain"
    head: Markup = dataclasses.field(default_factory=Markup)


@dataclasses.dataclass(frozen=True)
class Live:
    """Where a page is served that keeps itself up to date.

    Attributes:
        base: What all links of the page begin with, such as ``/``.
        events_url: Server-sent events: each one's data is JSON with ``id`` and ``html``, a part of
            `page_parts` that has changed. Without a token in it; the cookie goes along.
        links: To the other pages.
    """

    base: str
    events_url: str
    links: Sequence[Link] = ()


def render_page(page: Page, *, live: Live | None = None) -> str:
    """Return a page's HTML, whole.

    Args:
        page: What is in it.
        live: Where it is served; None for a file that stands alone.
    """
    scripts = [_file("plots.js"), *([_file("live.js")] if live else [])]
    text = (
        _environment()
        .get_template("shell.html.j2")
        .render(
            page=page,
            live=live,
            parts=page_parts(page),
            style=_file("style.css"),
            scripts=scripts,
            hashes=[_hash_of(script) for script in scripts],
            version=installed_version(),
        )
    )
    # Names of files need not be text, which a page is.
    return text.encode("utf-8", "replace").decode()


def page_parts(page: Page) -> Mapping[str, Markup]:
    """Return the parts of a page that can be replaced alone, by their ids in the page."""
    parts = _environment().get_template("parts.html.j2").module
    head, contents, section = (getattr(parts, name) for name in ("head", "contents", "section"))
    return {
        "page-head": head(page),
        "page-contents": contents(page),
        **{part.id: section(part) for part in page.sections},
    }


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@functools.cache
def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash_of(script: str) -> str:
    """Return what a content security policy names a script by."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
