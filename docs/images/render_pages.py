"""Draws report pages of real runs: python docs/images/render_pages.py.

Needs Chromium and, for the pictures of mistakes, PyTorch; the data are embedded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent
TARMAC = str(Path(sys.executable).parent / "tarmac")
TRAININGS = (
    ("--epochs", "40", "--validation-size", "200"),
    ("--epochs", "40", "--validation-size", "200", "--set", "hidden=32"),
)


def main() -> None:
    """Train twice, and draw the page of one run and that of both."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for options in TRAININGS:
            _tarmac(directory, "train", "digits-mlp", *options)
        runs = sorted(map(str, (directory / "runs").iterdir()))
        _tarmac(directory, "report", runs[0], "--html", "training.html")
        _tarmac(directory, "report", *runs, "--html", "comparison.html")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox"]
            )
            _draw(browser, directory / "training.html", "report-training", (1100, 1150))
            _draw(browser, directory / "training.html", "report-telephone", (390, 844), "dark")
            _draw(browser, directory / "comparison.html", "report-comparison", (1100, 1000))
            browser.close()


def _tarmac(directory: Path, *words: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "TARMAC_RUNS"}
    subprocess.run([TARMAC, *words], cwd=directory, check=True, env=environment)


def _draw(
    browser: Browser, page: Path, name: str, size: tuple[int, int], scheme: str = "light"
) -> None:
    width, height = size
    window = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    window.goto(page.as_uri())
    window.screenshot(path=HERE / f"{name}.png")
    window.close()


if __name__ == "__main__":
    main()
