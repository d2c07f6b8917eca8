"""Pages: their parts as values, and the HTML file that they become.

A page needs no network and no other file. Everything that is not `markupsafe.Markup` is escaped.

Example:
    >>> request = Section("asked", "Request", Markup("<p>..</p>"))
    >>> page = Page("digits-mlp", sections=[request])
    >>> render_page(page).startswith("<!doctype html>")
    True
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

from tarmac.distribution import installed_version

_FOLDER = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Link:
    """A link to another page: its text and its target."""

    text: str
    target: str


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of a page with its own heading.

    Attributes:
        id: ID of the section for links and updates, unique in the page: letters, digits and
            hyphens.
        title: Heading above the section's body.
        body: Content of the section, as markup.
        note: Sentence below the heading that describes the content. Empty for none.
    """

    id: str
    title: str
    body: Markup
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Page:
    """The content of a page.

    Attributes:
        title: Title of the page, such as a run's name.
        subtitle: One line that describes the run. Empty for none.
        sections: Sections of the page, from top to bottom.
        status: Status in one word, such as ``completed``. Empty for none.
        state: Style of the status: ``ok``, ``bad``, ``warn``, ``busy`` or ``plain``.
        head: The most important figures, beside the title; see `tarmac.pages.components.tiles`.
    """

    title: str
    subtitle: str = ""
    sections: Sequence[Section] = ()
    status: str = ""
    state: str = "plain"
    head: Markup = dataclasses.field(default_factory=Markup)


@dataclasses.dataclass(frozen=True)
class Live:
    """The server settings of a page that updates itself.

    Attributes:
        base: Prefix of all links in the page, such as ``/``.
        events_url: URL of server-sent events. The data of an event is JSON with the ``id`` and
            ``html`` of a changed part of `page_parts`. The URL has no token: the browser sends the
            cookie.
        links: Links to the server's other pages.
    """

    base: str
    events_url: str
    links: Sequence[Link] = ()


def render_page(page: Page, *, live: Live | None = None) -> str:
    """Return the complete HTML of a page.

    Args:
        page: Content of the page.
        live: Server settings. None for a standalone file.
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
    # File names may be invalid Unicode, which a page cannot hold.
    return text.encode("utf-8", "replace").decode()


def page_parts(page: Page) -> Mapping[str, Markup]:
    """Return the parts of a page that can be replaced separately, by their IDs in the page."""
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
    """Return a script's hash for the content security policy."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
