"""Every figure that a page takes from a benchmark's result is in that result, and the newest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
PAGES = [ROOT / "README.md", ROOT / "bench" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_LINK = re.compile(r"\]\((?:(?:\.\./)?bench/)?results/([\w-]+\.md)\)")
# No figures of a result: releases of programs, code, a link's place, a precision's name.
_OTHER = re.compile(
    r"\b(?:Tarmac|Python|PyTorch|Keras|TensorFlow|Lightning|Accelerate) [\d.]*\d"
    r"|`[^`]*`|\]\([^)]*\)"
)
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
_NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w-]|\.\d)")


def blocks(page: Path) -> list[str]:
    """Return the paragraphs of a page that link to results, with the tables that they introduce."""
    paragraphs = page.read_text().split("\n\n")
    return [
        text + ("\n\n" + after if text.rstrip().endswith(":") else "")
        for text, after in zip(paragraphs, [*paragraphs[1:], ""], strict=True)
        if _LINK.search(text)
    ]


BLOCKS = [
    pytest.param(block, id=f"{page.name}, {', '.join(_LINK.findall(block))}")
    for page in PAGES
    for block in blocks(page)
]


def numbers(text: str) -> list[str]:
    """Return the numbers of a text, without commas between thousands."""
    return [number.replace(",", "") for number in _NUMBER.findall(text)]


def is_rounded(figure: str, values: set[float]) -> bool:
    """Tell whether a figure is one of some values, or its hundredfold, rounded."""
    half = 0.5 * 10.0 ** -len(figure.partition(".")[2]) + 1e-9
    return any(
        abs(float(figure) - each) <= half for value in values for each in (value, 100 * value)
    )


@pytest.mark.parametrize("block", BLOCKS)
def test_every_figure_beside_a_link_to_a_result_is_that_results(block):
    results = [(RESULTS / name).read_text() for name in _LINK.findall(block)]
    values = {float(number) for result in results for number in numbers(result)}
    text = _DATE.sub("", _OTHER.sub("", block))
    assert [figure for figure in numbers(text) if not is_rounded(figure, values)] == []


@pytest.mark.parametrize("block", BLOCKS)
def test_every_figure_of_a_result_stands_with_the_results_date(block):
    dates = {read_result(name)[1] for name in _LINK.findall(block)}
    assert {*_DATE.findall(block)} == dates


def read_result(name: str) -> tuple[str, str]:
    """Return which benchmark a result is of, and its date."""
    text = (RESULTS / name).read_text()
    return text.partition("\n")[0], _DATE.findall(text)[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_the_newest_result_of_each_benchmark_that_it_shows(page):
    newest = dict(sorted(read_result(path.name) for path in RESULTS.glob("*.md")))
    shown = dict(sorted(read_result(name) for name in _LINK.findall(page.read_text())))
    assert shown == {benchmark: newest[benchmark] for benchmark in shown}


def test_pages_have_figures():
    assert len(BLOCKS) > 5
