"""Tests of the groups that `make test` leaves out."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from scripts import import_script

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
GROUPS = re.search(r"^GROUPS := (.*)$", MAKEFILE, re.MULTILINE)[1].split()
CHANGED = import_script("changed")


def made(target: str) -> str:
    """Return what `make` would run for a target whose environment is made."""
    command = ["make", "-n", "-o", ".venv/.installed-dev", target]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_each_marker_of_a_group_is_a_group_of_the_makefile():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]
    markers = {line.partition(":")[0] for line in settings["ini_options"]["markers"]}
    assert markers - {"gpu", "mnist"} == set(GROUPS)


def test_make_test_leaves_every_group_out():
    assert f'-m "not ({" or ".join(GROUPS)})"' in made("test")


@pytest.mark.parametrize("group", GROUPS)
def test_each_group_is_a_target_and_part_of_all(group):
    expression = group if group == "nightly" else f"{group} and not nightly"
    assert f'-m "{expression}"' in made(f"test-{group}")
    assert f'"make test-{group}"' in made("test-all")


def test_the_workflow_at_night_runs_all_groups():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert "make test-all" in workflow


@pytest.fixture(scope="module")
def graph():
    """Return what needs what in this checkout; it takes 7 s of CPU."""
    return CHANGED.Graph(ROOT, CHANGED.known_files())


def test_each_module_of_this_checkout_leads_to_some_test(graph):
    modules = [path for path in graph.files if path.startswith("src/tarmac/")]
    assert len(modules) > 100
    assert [path for path in modules if not CHANGED.select({path}, graph)[0]] == []


def test_contributing_has_the_groups_and_the_rooms_whose_changes_need_them(graph):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \|([^|]*)\|$", text, re.MULTILINE)
    assert [group for group, _ in rows] == GROUPS
    for group, rooms in rows:
        for room in re.findall(r"`(\w+)`", rooms):
            files = {path for path in graph.files if path.startswith(f"src/tarmac/{room}/")}
            assert files, f"{room} is no room"
            assert group in CHANGED.select(files, graph)[1], f"no test of {group} needs {room}"
