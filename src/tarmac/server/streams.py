"""Server-sent events that update the pages in browsers.

All browsers that show a page share its updates. The page is made anew once for all of them, and
only after its state has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Mapping

from tarmac.pages import Page, page_parts
from tarmac.server.site import Address, NoSuchPageError, Site
from tarmac.server.threads import in_thread

# Seconds between two checks for changes.
_EVERY_S = 1.0

# Seconds after which a page is made anew in any case: no file shows changes in a remote database.
_AT_LEAST_EVERY_S = 30.0

# Seconds between comment lines on an idle stream, which reveal a broken connection.
_BEAT_S = 15.0

_RETRY_MS = 2000

GONE = "event: gone\ndata: \n\n"
RELOAD = "event: reload\ndata: \n\n"


def version_of(page: Page) -> str:
    """Return a text that is equal for pages with equal content."""
    return _version(page_parts(page))


class Streams:
    """Streams of changes for the pages that browsers show at the moment.

    Args:
        site: Site that makes the pages.
        every_s: Seconds between checks of a page for changes.
    """

    def __init__(self, site: Site, *, every_s: float = _EVERY_S) -> None:
        self._site = site
        self._every_s = every_s
        self._watched: dict[Address, _Watched] = {}
        self._closed = asyncio.Event()

    def close(self) -> None:
        """End all streams at once."""
        self._closed.set()
        for watched in self._watched.values():
            watched.wake()

    async def events(self, address: Address, version: str) -> AsyncIterator[str]:
        """Yield the changes of a page from now on, as text of an event stream.

        Args:
            address: Address of the page to watch.
            version: Version of the page in the browser, from `version_of`.
        """
        yield f"retry: {_RETRY_MS}\n\n"
        watched = self._watched.get(address)
        if watched is None:
            watched = self._watched[address] = _Watched()
            watched.task = asyncio.create_task(self._watch(address, watched))
        watched.num_streams += 1
        shown: Mapping[str, str] | None = None
        try:
            while not self._closed.is_set():
                # Taken before the parts, so that a change during a transmission is not missed.
                news = watched.news
                parts = watched.parts
                if watched.is_gone:
                    yield GONE
                    return
                if parts is not None and shown is None and _version(parts) == version:
                    shown = parts
                if parts is not None and shown is not None and parts.keys() != shown.keys():
                    yield RELOAD
                    return
                if parts is not None and parts is not shown:
                    for event in _changes(shown or {}, parts):
                        yield event
                    shown = parts
                if not await _comes(news, _BEAT_S):
                    yield ": \n\n"
        finally:
            watched.num_streams -= 1
            if watched.num_streams == 0:
                self._watched.pop(address, None)
                if watched.task is not None:
                    watched.task.cancel()

    async def _watch(self, address: Address, watched: _Watched) -> None:
        """Make a page anew whenever it may have changed, while a browser shows it."""
        known: object = None
        unchanged_s = _AT_LEAST_EVERY_S
        while not watched.is_gone:
            try:
                state = await in_thread(self._site.state, address)
                if state != known or unchanged_s >= _AT_LEAST_EVERY_S:
                    page = await in_thread(self._site.page, address)
                    known, unchanged_s = state, 0.0
                    watched.show(page_parts(page))
            except NoSuchPageError:
                watched.end()
            except Exception:
                # Browsers keep the page and see the error after a reload; the loop tries again.
                known = None
            await asyncio.sleep(self._every_s)
            unchanged_s += self._every_s


class _Watched:
    """A page that browsers show: its latest parts, and an event for the next change."""

    def __init__(self) -> None:
        self.num_streams = 0
        self.task: asyncio.Task[None] | None = None
        self.parts: Mapping[str, str] | None = None
        self.is_gone = False
        self.news = asyncio.Event()

    def show(self, parts: Mapping[str, str]) -> None:
        if parts != self.parts:
            self.parts = parts
            self.wake()

    def end(self) -> None:
        self.is_gone = True
        self.wake()

    def wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()


async def _comes(news: asyncio.Event, limit_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(news.wait(), limit_s)
        return True
    return False


def _changes(shown: Mapping[str, str], parts: Mapping[str, str]) -> list[str]:
    return [
        f"data: {json.dumps({'id': key, 'html': html})}\n\n"
        for key, html in parts.items()
        if shown.get(key) != html
    ]


def _version(parts: Mapping[str, str]) -> str:
    text = "\0".join(f"{key}\0{html}" for key, html in parts.items())
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
