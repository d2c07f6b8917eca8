"""What pages name is there: options, files, Python names, variables."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from command_line import options
from doc_pages import (
    DOCS,
    FOR_USERS,
    PACKAGE,
    ROOT,
    SOURCES,
    blocks,
    in_code,
    page_id,
    rows,
    section,
    spans,
)

OPTIONS = options().keys()
OTHER_PROGRAMS = {
    *("--gpus", "--ipc", "--ulimit", "--privileged", "--cpus", "--filter", "--force"),  # Docker's
    *("--explicit", "--frozen", "--md5", "--script"),  # conda's and uv's
    *("--array", "--exclude", "--gres", "--licenses"),  # Slurm's
    *("--from-literal", "--type", "--failed", "--seeds"),  # kubectl's, systemctl's, of bench/
}
each_page = pytest.mark.parametrize("page", FOR_USERS, ids=page_id)


@each_page
def test_every_option_that_a_page_names_exists(page):
    named = {name for span in spans(page) for name in re.findall(r"(?<![\w-])--[a-z][\w-]*", span)}
    assert not named - OPTIONS - OTHER_PROGRAMS - {"--help"}


@each_page
def test_every_file_of_the_repository_that_a_page_names_exists(page):
    folders = (
        "src",
        "tests",
        "bench",
        "docs",
        "examples",
        *(path.name for path in PACKAGE.iterdir()),
    )
    shown = "\n".join(span for span in spans(page) if "/" in span and not span.startswith("run:"))
    paths = re.findall(r"(?<![\w./~$-])(?:[\w.-]+/)+[\w.-]+\.(?:py|toml|md|yaml|sh)\b", shown)
    written = {block.file for block in blocks(page)}
    text = " ".join(page.read_text().split())
    for path in set(paths) - written:
        if path.partition("/")[0] in folders and f"nanoGPT's `{path}`" not in text:
            places = [folder / path for folder in (ROOT, PACKAGE, *PACKAGE.glob("*/"))]
            assert any(place.exists() for place in places), path


@each_page
def test_every_python_name_of_tarmac_that_a_page_shows_exists(page):
    groups = entry_points()
    for span in spans(page):
        for name in re.findall(r"(?<![\w./{ -])tarmac(?:\.[A-Za-z_]\w*)+(?![\w/])", span):
            if name not in groups and not name.endswith(".bash"):
                assert resolves(name), name


def entry_points() -> set[str]:
    """Return the groups by which packages add to Tarmac."""
    source = "\n".join(path.read_text() for path in SOURCES)
    return set(re.findall(r'^_?[A-Z_]*GROUP[A-Z_]* = "(tarmac\.\w+)"', source, re.MULTILINE))


def resolves(name: str) -> bool:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


def test_the_page_of_extensions_lists_every_entry_point():
    named = set(in_code(section(DOCS / "extend.md", "# Extend Tarmac")))
    assert entry_points() <= named
    assert len(entry_points()) > 5


def test_the_python_reference_lists_every_package_that_pages_import():
    listed = set(re.findall(r"automodule:: (\S+)", (DOCS / "api.md").read_text()))
    code = "\n".join(block.text for page in FOR_USERS for block in blocks(page))
    used = set(re.findall(r"(?:from|import) (tarmac(?:\.\w+)?)", code))
    assert used <= listed


@pytest.mark.parametrize(
    ("variable", "call"),
    [
        ("TARMAC_DATA", "tarmac.data.store:data_root"),
        ("TARMAC_SETTINGS_FILE", "tarmac.settings:settings_path"),
        ("TARMAC_SECRETS", "tarmac.tasks.secrets:secret_mapping_path"),
        ("TARMAC_SPOOL", "tarmac.executors.spool:_default_root"),
    ],
)
def test_the_default_of_a_variable_is_the_one_on_the_page(variable, call, monkeypatch):
    for name in (variable, "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    module, _, name = call.partition(":")
    (default,) = [
        row[1]
        for row in rows((DOCS / "environment.md").read_text())
        if row[0] == f"`{variable}`" and len(row) == 3
    ]
    value = getattr(importlib.import_module(module), name)()
    assert Path(default.strip("`")).expanduser() == value


def test_the_page_of_variables_has_every_one_of_tarmacs_own():
    page = (DOCS / "environment.md").read_text()
    names = set()
    for path in SOURCES:
        names |= set(re.findall(r'"(TARMAC_[A-Z_]+)"', path.read_text()))
    names.remove("TARMAC_JOB")  # ends a here-document
    assert len(names) > 30
    assert not {name for name in names if f"`{name}`" not in page}
    named = {
        name for other in FOR_USERS for name in re.findall(r"\bTARMAC_[A-Z_]+\b", other.read_text())
    }
    assert not named - set(re.findall(r"\bTARMAC_[A-Z_]+\b", page))


def test_the_glossary_is_in_order_of_the_alphabet():
    terms = [row[0].casefold() for row in rows((DOCS / "glossary.md").read_text())[1:]]
    assert terms == sorted(terms)
