import base64
import hashlib
import operator
import os
import re
from html import unescape
from pathlib import Path

import pytest
from markupsafe import Markup
from reading import check_page, ids, read, texts

from tarmac import pages
from tarmac.pages import Link, Live, Page, Section, Tile, page_parts, render_page, tiles

EVIL = """<script>alert("1")</script>' onload='x"""
LIVE = Live("/", "/events?run=a&b", links=[Link("Runs", "/"), Link(EVIL, "/jobs")])


def a_page(**changes):
    section = Section("one", "One", Markup("<p>first</p>"), note="a note")
    other = Section("two", EVIL, Markup("<p>second</p>"), note=EVIL)
    return Page(**{"title": "a run", "subtitle": EVIL, "sections": [section, other]} | changes)


@pytest.mark.parametrize("live", [None, LIVE])
def test_a_page_is_whole_and_shows_hostile_words_as_text(live):
    page = a_page(title=EVIL, status=EVIL, head=tiles([Tile(EVIL, EVIL, EVIL)]))
    elements = check_page(render_page(page, live=live))
    assert texts(elements, "h1") == [EVIL]
    assert texts(elements, "h2")[1] == EVIL


def test_names_of_files_that_are_no_text_make_a_page_all_the_same():
    elements = check_page(render_page(a_page(title=os.fsdecode(b"run \xff"))))
    assert texts(elements, "h1") == ["run ?"]


def test_a_page_has_landmarks_and_a_way_to_its_content():
    elements = check_page(render_page(a_page()))
    names = {element.name for element in elements}
    assert {"header", "nav", "main", "footer"} <= names
    first = next(element for element in elements if element.name == "a")
    assert first.attributes["href"] == "#content"
    (main,) = [element for element in elements if element.name == "main"]
    assert "a run" in main.text
    labelled = [e.attributes["aria-labelledby"] for e in elements if e.name == "section"]
    assert labelled == ["one-heading", "two-heading"]


def _policy(html):
    return unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1])


@pytest.mark.parametrize("live", [None, LIVE])
def test_the_policy_names_the_page_s_own_scripts_and_no_network(live):
    html = render_page(a_page(), live=live)
    policy = _policy(html)
    assert "default-src 'none'" in policy
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    assert len(scripts) == (2 if live else 1)
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert ("connect-src 'self'" in policy) == (live is not None)


def test_a_file_needs_no_network():
    html = render_page(a_page())
    assert not re.search(r"https?://", html)
    assert "EventSource" not in html


def test_a_served_page_has_links_to_others_and_listens():
    elements = check_page(render_page(a_page(), live=LIVE))
    targets = [e.attributes.get("href") for e in elements if e.name == "a"]
    assert {"/", "/jobs"} <= set(targets)
    (body,) = [element for element in elements if element.name == "body"]
    assert body.attributes["data-events"] == "/events?run=a&b"


def test_each_part_of_a_page_can_be_replaced_by_its_id():
    page = a_page()
    html = render_page(page)
    parts = page_parts(page)
    assert list(parts) == ["page-head", "page-contents", "one", "two"]
    for name, part in parts.items():
        assert part.strip() in html
        assert ids(read(part))[0] == name


# Contrast.

STYLE = (Path(pages.__file__).parent / "style.css").read_text()
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", STYLE
    )
}


def linear(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in channels
    ]


def brightness(channels):
    return sum(map(operator.mul, (0.2126, 0.7152, 0.0722), channels))


def luminance(colour):
    return brightness(linear(colour))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "ground"),
    [
        *((ink, "ground") for ink in ("ink", "soft", "link", "ok", "warn", "bad", "busy")),
        *((ink, "raised") for ink in ("ink", "soft", "ok", "warn", "bad")),
        *((ink, f"{ink}-ground") for ink in ("ok", "warn", "bad", "busy")),
        *(("ink", f"{state}-ground") for state in ("ok", "warn", "bad")),
        # Words in blocks of a timeline.
        *(("ground", state) for state in ("ok", "warn", "bad", "busy", "s7")),
        ("ink", "edge"),
    ],
)
def test_texts_have_enough_contrast(ink, ground, theme):
    assert contrast(COLOURS[ink][theme], COLOURS[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", [f"s{number}" for number in range(8)])
def test_lines_have_enough_contrast(name, theme):
    assert contrast(COLOURS[name][theme], COLOURS["ground"][theme]) >= 3
    assert contrast(COLOURS[name][theme], COLOURS["raised"][theme]) >= 3


# How browsers mix two colours in oklab: https://bottosson.github.io/posts/oklab/
TO_LMS = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
FROM_LMS = (
    (4.0767416621, -3.3077115913, 0.2309699292),
    (-1.2684380046, 2.6097574011, -0.3413193965),
    (-0.0041960863, -0.7034186147, 1.7076147010),
)


def mixed(one, other, percent):
    """Lab is linear in the cube roots of the cones' answers, and so is a mix of two colours."""
    roots = [
        [sum(map(operator.mul, row, linear(colour))) ** (1 / 3) for row in TO_LMS]
        for colour in (one, other)
    ]
    share = percent / 100
    cones = [(share * a + (1 - share) * b) ** 3 for a, b in zip(*roots, strict=True)]
    return [max(0.0, sum(map(operator.mul, row, cones))) for row in FROM_LMS]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("is_right", [False, True])
def test_figures_in_a_matrix_have_enough_contrast(is_right, theme):
    shades = [place / 40 for place in range(41)]
    drawn = pages.matrix(
        "m",
        "m",
        [[1.0] * len(shades)],
        rows=["one"],
        columns=[""] * len(shades),
        shades=[shades],
        strong=[[is_right] * len(shades)],
    )
    cells = [e.attributes for e in read(drawn) if e.attributes.get("class", "").startswith("cell")]
    assert len(cells) == len(shades)
    ground = COLOURS["ground"][theme]
    for cell in cells:
        percent = float(cell["style"].removeprefix("--w:").removesuffix("%"))
        colour = COLOURS["ok" if is_right else "bad"][theme]
        text = ground if "deep" in cell["class"].split() else COLOURS["ink"][theme]
        low, high = sorted((brightness(mixed(colour, ground, percent)), luminance(text)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, cell
