"""Pages name every directory that Tarmac writes, and the extra that a command needs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from doc_pages import (
    DOCS,
    FOR_USERS,
    PAGES,
    ROOT,
    SOURCES,
    blocks,
    in_code,
    links,
    page_id,
    rows,
    section,
)

each_page = pytest.mark.parametrize("page", FOR_USERS, ids=page_id)


def places_written() -> set[str]:
    """Return what the source writes below a user's directories, as ``~/.cache/tarmac/data``."""
    homes = {"cache": "~/.cache", "config": "~/.config", "state": "~/.local/state"}
    call = re.compile(
        r'platformdirs\.user_(\w+)_(?:path|dir)\("tarmac"[^)]*\)\)?(?:\s*/ "([\w.-]+)")?'
    )
    return {
        f"{homes[kind]}/tarmac" + (f"/{name}" if name else "")
        for path in SOURCES
        for kind, name in call.findall(path.read_text())
    }


def test_what_tarmac_writes_outside_of_runs_is_on_the_page_that_says_how_to_remove_it():
    page = (DOCS / "uninstall.md").read_text()
    written = places_written()
    assert len(written) > 8
    assert not {place for place in written if f"`{place}" not in page}
    everything = next(line for line in page.splitlines() if line.startswith("rm -rf"))
    tops = {"/".join(place.split("/")[: place.split("/").index("tarmac") + 1]) for place in written}
    assert tops <= set(everything.split())


def test_what_tarmac_keeps_in_temporary_directories_is_on_that_page():
    page = (DOCS / "uninstall.md").read_text()
    source = "\n".join(path.read_text() for path in SOURCES)
    names = re.findall(r'f"(tarmac-(?:\w+-)?)\{os\.gete?uid\(\)\}"', source)
    assert len(names) > 1
    assert not {name for name in names if f"{name}UID" not in page}
    assert "tarmac-leases" in page


@each_page
def test_every_directory_of_the_user_that_a_page_names_is_one_that_tarmac_writes(page):
    named = re.findall(r"~/\.(?:cache|config|local/state)/tarmac[\w./-]*", page.read_text())
    written = places_written()
    for place in named:
        above = [place, *map(str, Path(place).parents)]
        is_above = any(known.startswith(place.rstrip("/") + "/") for known in written)
        assert is_above or written.intersection(above), place


def extras() -> dict[str, set[str]]:
    """Return the packages of each extra that is for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        name: {
            re.split(r"[\[><=;]", requirement)[0]
            for requirement in requirements
            if not requirement.startswith("tarmac-gpu")
        }
        for name, requirements in project["optional-dependencies"].items()
        if name not in ("test", "docs", "dev")
    }


def extra_rows() -> dict[str, list[str]]:
    table = rows(section(DOCS / "quickstart.md", "## Extras"))
    return {in_code(row[0])[0]: row for row in table if in_code(row[0])}


def test_the_table_of_extras_is_that_of_the_package():
    assert {name: set(in_code(row[1])) for name, row in extra_rows().items()} == extras()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_extra_that_a_page_names_exists(page):
    text = page.read_text()
    named = ",".join(re.findall(r"tarmac-gpu\[([\w,]+)\]", text)).split(",")
    named += re.findall(r"extras? `(\w+)`", text)
    assert not set(named) - {"", "dev", *extras()}


@each_page
def test_a_page_names_the_extra_that_its_commands_need(page):
    shown = [
        line.strip()
        for block in blocks(page)
        if block.kind in ("console", "text", "bash")
        for line in block.text.replace("\\\n", " ").splitlines()
        if re.match(r"(\$ )?tarmac ", line.strip())
    ]
    text = page.read_text()
    if any(link.endswith("#extras") for link in links(page)):
        return
    for name, row in extra_rows().items():
        if name != "train" and any(needs(line, row[2]) for line in shown):
            assert re.search(rf"tarmac-gpu\[[\w,]*\b(?:{name}|all)\b|extra `{name}`", text), name


def needs(line: str, cell: str) -> bool:
    """Whether a command is one of those that a cell names: a verb, and a word where it has any."""
    for clause in cell.split(";"):
        verbs = [span.split()[1:] for span in in_code(clause) if span.startswith("tarmac ")]
        parts = [span for span in in_code(clause) if re.match(r"\.|--|s3:|gs:|az:", span)]
        words = line.removeprefix("$ ").split()[1:]
        has_part = any(word.startswith(p) or word.endswith(p) for p in parts for word in words)
        for verb in verbs:
            if words[: len(verb)] == verb and (has_part or not parts):
                return True
        if not verbs and has_part:
            return True
    return False
