"""A browser is told what changes in a page that it shows, and nothing else."""

from __future__ import annotations

import asyncio
import json

import pytest

from tarmac.server.site import Address
from tarmac.server.streams import Streams, version_of
from waiting import wait_until_async

# Far beyond what any of this takes.
LIMIT_S = 60

# Of the parts of a training's page.
LAST = "logs"


@pytest.fixture(autouse=True)
def no_beat(monkeypatch):
    """Nothing comes late with a beat of its own."""
    monkeypatch.setattr("tarmac.server.streams._BEAT_S", 3600.0)


class Browser:
    """Reads a stream as a browser does."""

    def __init__(self, streams: Streams, address: Address, version: str = "") -> None:
        self._events = streams.events(address, version)

    async def next(self) -> str | dict[str, str]:
        """Return the next event: its name, or what it says of a part."""
        while True:
            event = await asyncio.wait_for(anext(self._events), LIMIT_S)
            if event.startswith("data: "):
                return json.loads(event.removeprefix("data: "))
            if event.startswith("event: "):
                return event.split("\n")[0].removeprefix("event: ")

    async def until(self, part: str) -> str:
        """Return what the next change of a part makes it."""
        while True:
            event = await self.next()
            assert isinstance(event, dict), event
            if event["id"] == part:
                return event["html"]

    async def close(self) -> None:
        await self._events.aclose()


def watching(site, use) -> None:
    """Run something with streams of a site."""

    async def run() -> None:
        streams = Streams(site, every_s=0.01)
        try:
            await use(streams)
        finally:
            streams.close()

    asyncio.run(run())


def test_the_part_that_has_changed_is_sent_and_no_other(site, training):
    run = training("a", status="failed")

    async def use(streams):
        browser = Browser(streams, Address("/runs/a/"))
        await browser.until(LAST)
        for status in ("completed", "interrupted"):
            run.update(status=status)
            event = await browser.next()
            assert isinstance(event, dict)
            assert event["id"] == "asked"
            assert status in event["html"]
        await browser.close()

    watching(site, use)


def test_what_changes_while_something_is_sent_is_not_missed(site, training, drawing):
    run = training("a", status="failed")

    async def use(streams):
        browser = Browser(streams, Address("/runs/a/"))
        await browser.until("asked")
        # The stream waits for the browser to take the parts that are left.
        run.update(status="completed")
        await wait_until_async(lambda: len(drawing.drawn) >= 2, "the page to be drawn again")
        await browser.until(LAST)
        assert "completed" in await browser.until("asked")
        await browser.close()

    watching(site, use)


def test_what_changed_before_the_stream_began_is_not_missed(site, training):
    run = training("a", status="failed")
    address = Address("/runs/a/")
    version = version_of(site.page(address))
    run.update(status="completed")

    async def use(streams):
        browser = Browser(streams, address, version)
        assert "completed" in await browser.until("asked")
        await browser.close()

    watching(site, use)


def test_all_who_show_a_page_share_its_making_and_it_ends_with_the_last(site, training, drawing):
    training("a")
    address = Address("/runs/a/")

    async def use(streams):
        browsers = [Browser(streams, address) for _ in range(5)]
        for browser in browsers:
            await browser.until("asked")
        assert len(drawing.drawn) == 1
        for browser in browsers:
            assert streams._watched
            await browser.close()
        assert not streams._watched

    watching(site, use)


def test_a_page_that_has_other_parts_now_is_loaded_anew(site, training, output):
    training("a")
    address = Address("/")

    async def use(streams):
        browser = Browser(streams, address)
        await browser.until("runs")
        (output / "damaged").mkdir()
        (output / "damaged" / "run.json").write_text("{")
        while (event := await browser.next()) != "reload":
            assert isinstance(event, dict)
        await browser.close()

    watching(site, use)


def test_a_run_that_is_removed_is_told_as_gone(site, training, output):
    run = training("a")

    async def use(streams):
        browser = Browser(streams, Address("/runs/a/"))
        await browser.until(LAST)
        run.path.rename(output / ".removed")
        assert await browser.next() == "gone"

    watching(site, use)


def test_a_page_that_cannot_be_made_for_a_while_comes_back(site, training, drawing):
    run = training("a", status="failed")

    async def use(streams):
        browser = Browser(streams, Address("/runs/a/"))
        await browser.until("asked")
        drawing.error = ValueError("half a line")
        run.update(status="interrupted")
        await wait_until_async(lambda: len(drawing.drawn) >= 3, "the page to be drawn again")
        # The other way round, the page could come back before the run has changed.
        run.update(status="completed")
        drawing.error = None
        assert "completed" in await browser.until("asked")
        await browser.close()

    watching(site, use)


def test_streams_end_when_they_are_told_to(site, training):
    training("a")

    async def use(streams):
        browser = Browser(streams, Address("/runs/a/"))
        await browser.until(LAST)
        waiting = asyncio.ensure_future(browser.next())
        await asyncio.sleep(0)
        streams.close()
        with pytest.raises(StopAsyncIteration):
            await waiting

    watching(site, use)
