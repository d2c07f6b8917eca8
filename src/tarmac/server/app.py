"""The web application: pages, and streams of their changes, by address."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from tarmac.pages import Live, Page, Section, message, render_page
from tarmac.server.addresses import LINKS
from tarmac.server.site import Address, NoSuchPageError, Site
from tarmac.server.streams import Streams, version_of
from tarmac.server.threads import in_thread

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_EVENTS = b"/events"


class Application:
    """The application behind the guard, which answers accepted requests.

    Args:
        site: Site that makes the pages.
        streams: Streams that send changes in the pages to browsers.
    """

    def __init__(self, site: Site, streams: Streams) -> None:
        self._site = site
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        raw_path: bytes = scope["raw_path"]
        response: Response
        if raw_path == b"/favicon.ico":
            # Browsers request an icon on their own.
            response = Response(status_code=204)
        elif raw_path.startswith(_EVENTS + b"/"):
            response = self._events(raw_path.removeprefix(_EVENTS), scope["query_string"])
        else:
            response = await self._page(raw_path, scope["query_string"])
        await response(scope, receive, send)

    async def _page(self, raw_path: bytes, query: bytes) -> Response:
        # Relative links in a run's page need an address that ends with a slash.
        if raw_path.startswith(b"/runs/") and not raw_path.endswith((b"/", b"/log")):
            end = f"?{query.decode('ascii', 'replace')}" if query else ""
            return RedirectResponse(f"{raw_path.decode('ascii', 'replace')}/{end}")
        try:
            text = await in_thread(self._rendered, raw_path, query)
        except NoSuchPageError as error:
            return _html(render_page(_problem("There is no such page", error.message)), 404)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            return _html(render_page(_problem("This page could not be made", reason)), 500)
        return _html(text, 200)

    def _rendered(self, raw_path: bytes, query: bytes) -> str:
        page = self._site.page(Address.parse(raw_path, query))
        # With this version, the stream also sends changes made before the browser opens it.
        events = f"{_EVENTS.decode()}{quote_from_bytes(raw_path, safe='/%')}?"
        events += f"{query.decode('ascii', 'replace')}&" if query else ""
        live = Live("/", f"{events}version={version_of(page)}", LINKS)
        return render_page(page, live=live)

    def _events(self, raw_path: bytes, query: bytes) -> Response:
        whole = Address.parse(raw_path, query)
        rest = tuple(pair for pair in whole.query if pair[0] != "version")
        events = self._streams.events(Address(whole.path, rest), whole.first("version"))
        return StreamingResponse(events, media_type="text/event-stream")


def _html(text: str, status: int) -> Response:
    # Names of files may have bytes that are not UTF-8.
    return HTMLResponse(text.encode("utf-8", "replace"), status)


def _problem(title: str, reason: str) -> Page:
    section = Section("problem", "What is wrong", message("bad", reason))
    way_out = Markup('<p><a href="/">All runs</a></p>')
    return Page(title=title, head=way_out, sections=[section])
