"""Environments that conda, mamba or micromamba build, where a job asks for one of them."""

from __future__ import annotations

import shlex
import sys

import pytest

from tarmac.environments import CondaSpec, build_venv, list_venvs
from tarmac.errors import TarmacError

# What each of them does, seen from outside: it tells the machine, and fills a prefix.
_STAND_IN = """
import json, os, pathlib, sys
words = sys.argv[1:]
if words == ["info", "--json"]:
    print(json.dumps({"platform": "linux-64", "virtual_pkgs": os.environ.get("PACKAGES")}))
elif "broken" in pathlib.Path(words[words.index("--file") + 1]).read_text():
    sys.exit("PackagesNotFoundError: broken")
else:
    assert os.environ["CONDA_ALWAYS_YES"] == os.environ["MAMBA_ALWAYS_YES"] == "true"
    prefix = pathlib.Path(words[words.index("--prefix") + 1])
    (prefix / "conda-meta").mkdir(parents=True)
    (prefix / "conda-meta" / "tool-1.0-0.json").write_text("{}")
    (prefix / "words").write_text(" ".join(words[: words.index("--file")]))
"""


@pytest.fixture(params=["conda", "mamba", "micromamba"])
def tool(request, tmp_path, monkeypatch):
    """Return the name of a tool that is on the PATH, as a stand-in."""
    program = tmp_path / "bin" / request.param
    program.parent.mkdir()
    (tmp_path / "stand_in.py").write_text(_STAND_IN)
    command = shlex.join([sys.executable, str(tmp_path / "stand_in.py")])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return request.param


@pytest.fixture
def build(tmp_path):
    """Return a function that builds an environment of a file by a tool."""

    def make(text, tool):
        (tmp_path / "environment.yml").write_text(text)
        spec = CondaSpec(file="environment.yml", tool=tool)
        return build_venv(spec, tmp_path, tmp_path / "venvs")

    return make


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dependencies: [tool]\n", "env create --quiet"),
        ("@EXPLICIT\nhttps://a.example/noarch/tool-1.0-0.conda\n", "create --quiet"),
    ],
)
def test_a_tool_that_is_asked_for_builds_once(build, tool, text, words, tmp_path):
    path = build(text, tool)
    assert (path / "words").read_text() == words
    assert list_venvs(tmp_path / "venvs") == [(path, "tool-1.0-0")]
    (path / "words").write_text("as it was")
    assert build(text, tool) == path
    assert (path / "words").read_text() == "as it was"


def test_a_machine_with_another_driver_has_another_environment(build, tool, monkeypatch):
    first = build("dependencies: [tool]\n", tool)
    monkeypatch.setenv("PACKAGES", "__cuda=13")
    assert build("dependencies: [tool]\n", tool) != first


def test_what_a_tool_says_is_in_the_message(build, tool, tmp_path):
    with pytest.raises(TarmacError, match="could not be built") as raised:
        build("dependencies: [broken]\n", tool)
    assert "PackagesNotFoundError: broken" in raised.value.hint
    assert list_venvs(tmp_path / "venvs") == []


def test_a_tool_that_is_not_here_is_named(build, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TarmacError, match="micromamba is not on the PATH") as raised:
        build("dependencies: [tool]\n", "micromamba")
    assert "Leave tool out" in raised.value.hint
