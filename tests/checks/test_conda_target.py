"""A check of what an environment of conda's has."""

from __future__ import annotations

import sys

import pytest

from conda_channel import index, make_package
from tarmac import RequestError
from tarmac.checks import check
from tarmac.checks.targets import conda_target

pytest.importorskip("rattler", reason="needs pip install 'tarmac-gpu[conda]'")

# Stands for Python: what is tested is where it comes from and what it is given.
_PYTHON = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Return an environment.yml of a Python, and of a package that sets a variable."""
    channel = tmp_path / "channel"
    files = {"bin/python": _PYTHON, "etc/conda/activate.d/x.sh": "export SET_BY_PACKAGE=yes\n"}
    make_package(channel, "python", "3.11.0", files=files)
    make_package(channel, "empty", files={"share/x": "x"})
    index(channel)
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "packages"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "environment.yml"
    path.write_text(f"channels: [{channel}]\ndependencies: [python]\nvariables: {{OWN: set}}\n")
    return path


def test_a_file_is_built_and_its_python_has_what_is_set_where_it_is_active(file, tmp_path):
    target = conda_target(str(file))
    (program,) = target.command
    assert program.startswith(str(tmp_path / "cache"))
    assert target.name == str(file)
    assert (target.variables["OWN"], target.variables["SET_BY_PACKAGE"]) == ("set", "yes")
    prefix = target.variables["CONDA_PREFIX"]
    assert conda_target(prefix).command == target.command


def test_a_check_names_the_environment(file):
    report = check(["chainer"], condas=[str(file)], depth="quick")
    assert [probe.where for probe in report.probes] == [str(file)]


def test_an_environment_without_a_python_is_refused(file):
    file.write_text(file.read_text().replace("[python]", "[empty]"))
    with pytest.raises(RequestError, match="there is no Python in"):
        conda_target(str(file))


@pytest.mark.parametrize("name", ["no-such-environment", "./no/such"])
def test_one_that_is_not_there_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(RequestError, match="environment"):
        conda_target(name)
