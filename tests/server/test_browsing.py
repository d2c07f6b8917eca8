"""A browser is led through every page, and finds no error in its console."""

from __future__ import annotations

import http.server
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from serving_process import Served

import tarmac
from forked import forked_interpreter
from tarmac.jobs import Job

pytest.importorskip("uvicorn", reason="needs pip install 'tarmac-gpu[watch]'")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# Of waiting for what the page shows; on few cores a browser takes its time.
LIMIT_MS = 120_000
expect.set_options(timeout=LIMIT_MS)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser: sudo apt install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # A browser that root starts has no sandbox to be in.
        started = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=LIMIT_MS
        )
        yield started
        started.close()


@pytest.fixture
def page(browser, served) -> Iterator[Page]:
    """Yield a tab that fails the test where its console has an error, or anything is not found.

    It is closed before the server is.
    """
    context = browser.new_context()
    context.set_default_timeout(LIMIT_MS)
    tab = context.new_page()
    problems: list[str] = []
    tab.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on(
        "response",
        lambda answer: problems.append(answer.url) if answer.status >= 400 else None,
    )
    yield tab
    context.close()
    assert not problems


def enter(tab: Page, server: Served) -> None:
    """Open a server by its link. The page that takes the token leads to the first by itself."""
    tab.goto(server.url)
    expect(tab).to_have_url(f"{server.base}/")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return runs of each kind, one of a strange name, and a damaged one."""
    output = tmp_path_factory.mktemp("browsing") / "runs"
    for seed in (0, 1):
        tarmac.train("digits-mlp", epochs=2, seed=seed, output=output)
    space = {"hidden": [8, 16]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", forked_interpreter())
        tarmac.search("digits-mlp", space=space, method="brute", epochs=1, output=output)
    tarmac.run(Job(name="hello", command="echo hello"), output=output)
    (output / "damaged").mkdir()
    (output / "damaged" / "run.json").write_text('{"schema_ver')
    first = next(path.parent for path in output.glob("digits-mlp-*/run.json"))
    shutil.copytree(first, output / "<b>&?#% strange")
    return output


@pytest.fixture
def output(runs, tmp_path):
    return shutil.copytree(runs, tmp_path / "runs")


def use_all_of(page: Page) -> None:
    """Open what opens, point at every plot, and choose each colour."""
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true })")
    for plot in page.locator(".plot").all():
        plot.hover()
    for theme in page.locator(".theme label").all():
        theme.click()


def test_every_page_that_is_linked_opens_and_is_used_without_an_error(page, served, runs):
    server = served()
    enter(page, server)
    left, seen = [f"{server.base}/"], set()
    while left:
        address = left.pop()
        page.goto(address)
        seen.add(address)
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator("#live-state")).to_have_text("live")
        use_all_of(page)
        links = page.eval_on_selector_all("a[href]", "all => all.map(one => one.href)")
        pages = {link.partition("#")[0] for link in links}
        left += [link for link in pages - seen - {*left} if link.startswith(server.base)]
        assert all(link.startswith(server.base) for link in pages), pages
    paths = {address.removeprefix(server.base) for address in seen}
    # A training, a search and a job have pages of their own.
    kinds = ("run.json", "study.json", "job-run.json")
    for found in (next(runs.glob(f"*-*/{record}")) for record in kinds):
        assert f"/runs/{found.parent.name}/" in paths
    assert {"/", "/jobs", "/searches", "/gpus", "/runs/damaged/"} <= paths
    assert "/runs/%3Cb%3E%26%3F%23%25%20strange/" in paths
    assert any("/log?file=" in path for path in paths)
    assert any("/tasks/000000-hello/" in path for path in paths)
    assert any("/best/" in path for path in paths)


def test_runs_are_chosen_in_the_list_and_compared(page, served, output):
    server = served()
    enter(page, server)
    names = sorted(path.parent.name for path in output.glob("digits-mlp-*/run.json"))
    for name in names:
        page.get_by_role("checkbox", name=f"Compare {name}", exact=True).check()
    page.get_by_role("button", name="Compare the chosen").click()
    expect(page).to_have_url(re.compile(r"/compare\?run=digits-mlp-.*&run=digits-mlp-"))
    for name in names:
        expect(page.locator("main")).to_contain_text(name)
    expect(page.locator("#live-state")).to_have_text("live")
    use_all_of(page)


def test_runs_are_found_by_a_word(page, served):
    server = served()
    enter(page, server)
    page.get_by_role("searchbox").fill("strange")
    page.get_by_role("button", name="Find").click()
    expect(page).to_have_url(re.compile(r"\?q=strange"))
    expect(page.locator("#runs tbody tr")).to_have_count(1)


def test_the_list_shows_a_new_run_and_what_becomes_of_it_without_being_loaded_again(
    page, served, training
):
    server = served()
    enter(page, server)
    expect(page.locator("#live-state")).to_have_text("live")
    page.evaluate("window.isTheSame = true")
    run = training("new", status="failed")
    row = page.locator("#runs tr", has_text="new")
    expect(row).to_contain_text("failed")
    run.update(status="completed", metrics={"test_accuracy": 0.75})
    expect(row).to_contain_text("accuracy 0.7500")
    assert page.evaluate("window.isTheSame")


def test_a_log_grows_while_it_is_shown(page, served, training):
    run = training("a", status="running")
    (run.path / "logs").mkdir()
    log = run.path / "logs" / "rank-0"
    log.write_text("first line\n")
    server = served()
    enter(page, server)
    page.goto(f"{server.base}/runs/a/log?file=logs/rank-0")
    expect(page.locator("#log")).to_contain_text("first line")
    with log.open("a") as file:
        file.write("<img src=x onerror=alert(1)>\n")
    expect(page.locator("#log")).to_contain_text("onerror=alert(1)")
    assert page.locator("#log img").count() == 0


def test_a_run_that_is_removed_is_told_as_that(page, served, training, output):
    run = training("a")
    server = served()
    enter(page, server)
    page.goto(f"{server.base}/runs/a/")
    expect(page.locator("#live-state")).to_have_text("live")
    run.path.rename(output / ".removed")
    expect(page.locator("#live-state")).to_have_text("removed")


@pytest.fixture
def another_site(tmp_path) -> Iterator[tuple[Path, str]]:
    """Yield a directory, and where a site of another name on this machine serves it.

    A site on the internet would not do: Chromium itself keeps its frames away from this machine.
    """
    directory = tmp_path / "another-site"
    directory.mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        threading.Thread(target=serving.serve_forever).start()
        yield directory, f"http://localhost:{serving.server_port}/"
        serving.shutdown()


def test_a_link_of_another_site_leads_in_and_a_frame_of_it_does_not(
    browser, served, training, another_site
):
    training("a")
    server = served()
    directory, other = another_site
    (directory / "index.html").write_text(
        f'<a href="{server.url}">link</a><iframe src="{server.base}/"></iframe>'
    )
    context = browser.new_context()
    context.set_default_timeout(LIMIT_MS)
    tab = context.new_page()
    # This browser was here before, so it has the cookie.
    enter(tab, server)
    home = f"{server.base}/"
    with tab.expect_event("requestfailed", lambda failed: failed.url == home) as framed:
        tab.goto(other)
    assert framed.value.failure == "net::ERR_BLOCKED_BY_RESPONSE"
    stolen = tab.evaluate(
        "url => fetch(url, {credentials: 'include'}).then(a => a.text()).catch(() => 'refused')",
        home,
    )
    assert stolen == "refused"
    tab.get_by_role("link", name="link").click()
    expect(tab).to_have_url(home)
    expect(tab.locator("h1")).to_have_text("Runs")
    context.close()
