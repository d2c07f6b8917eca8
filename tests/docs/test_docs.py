"""The documentation's console and Python blocks run, and every link leads somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)([^)#]+)")


def blocks(page: Path) -> list[tuple[str, str]]:
    return FENCE.findall(page.read_text())


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(kind in ("console", "python") for kind, _ in blocks(page))],
    ids=lambda page: page.name,
)
def test_every_example_runs_in_order(page, tmp_path):
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        # A page's examples need nothing but what is embedded.
        "TARMAC_DATA": str(tmp_path / "data"),
        # Tests run on every core, where more threads would only wait for each other.
        "OMP_NUM_THREADS": "1",
    }
    for kind, text in blocks(page):
        if kind == "python":
            file = re.match(r"# (\S+\.py)\n", text)
            if file:
                (tmp_path / file[1]).write_text(text)
            commands = [[sys.executable, "-c", text]]
        elif kind == "console":
            commands = [shlex.split(line) for line in text.splitlines()]
        else:
            continue
        for command in commands:
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{page.name}: {command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_workload_in_the_docs_is_under_25_lines():
    (text,) = [
        text for _, text in blocks(ROOT / "docs" / "own-workload.md") if "# my_model.py" in text
    ]
    assert len(text.strip().splitlines()) < 25


def test_the_readme_counts_the_known_failures():
    from tarmac.checks import read_catalogue

    page = (ROOT / "README.md").read_text()
    counted = [int(number) for number in re.findall(r"\[(\d+) known failures\]", page)]
    assert counted == [len(read_catalogue())]


def test_the_page_of_workloads_shows_every_workload():
    from tarmac.workloads import workload_names

    page = (ROOT / "docs" / "workloads.md").read_text()
    assert all(f"`{name}`" in page for name in workload_names())
