"""The screen in a browser, led by one."""

import re
import shutil
import subprocess
import sys

import pytest
from playwright.sync_api import expect, sync_playwright

pytest.importorskip("textual_serve", reason="needs pip install 'tarmac-gpu[watch]'")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# On few cores a browser takes its time.
LIMIT_MS = 120_000

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser: sudo apt install chromium")

_SERVE = "from tarmac.monitor import serve_in_browser; serve_in_browser(['--output', {!r}])"


@pytest.fixture
def address(tmp_path):
    """Serve on any port, and return where."""
    code = _SERVE.format(str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://127\.0\.0\.1:\d+/\S+/", process.stdout.readline()).group()
    finally:
        process.terminate()
        process.communicate(timeout=200)


def test_the_screen_is_shown_and_takes_keys_without_an_error_in_the_console(address):
    problems, asked = [], []
    with sync_playwright() as playwright:
        # A browser that root starts has no sandbox to be in.
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=LIMIT_MS
        )
        page = browser.new_page()
        page.set_default_timeout(LIMIT_MS)
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else 0)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        expect(page.locator("body")).to_have_class(re.compile("-first-byte"), timeout=LIMIT_MS)
        # Nothing was clicked: keys reach the screen all the same, and q leaves it.
        expect(page.locator(".xterm-helper-textarea")).to_be_focused(timeout=LIMIT_MS)
        page.keyboard.press("q")
        expect(page.locator("body")).to_have_class(re.compile("-closed"), timeout=LIMIT_MS)
        browser.close()
    assert problems == []
    assert [url for url in asked if not url.startswith((address, "data:"))] == []
