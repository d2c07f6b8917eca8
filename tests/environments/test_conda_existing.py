"""Environments that conda has made: where they are, and what they set where they are active."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tarmac.environments import CondaSpec, activated, existing_prefix
from tarmac.errors import RequestError, TarmacError


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo noise; echo more >&2; export A='one\ntwo'", "one\ntwo"),
        ("export A=1", "1"),
        ("A=not-exported", None),
        ("export A=1; false", "1"),
        ("[ -n '' ] && export A=1", None),
    ],
)
def test_what_a_script_exports_is_set_whatever_it_prints(tmp_path, script, expected):
    folder = tmp_path / "a prefix/etc/conda/activate.d"
    folder.mkdir(parents=True)
    (folder / "x.sh").write_text(f"{script}\n")
    assert activated(tmp_path / "a prefix", {"PATH": os.environ["PATH"]}).get("A") == expected


def test_a_script_that_fails_is_told_with_its_words(tmp_path):
    folder = tmp_path / "etc/conda/activate.d"
    folder.mkdir(parents=True)
    (folder / "x.sh").write_text("echo no licence >&2\nexit 3\n")
    with pytest.raises(TarmacError, match=r"activate\.d: a script ends the shell: no licence"):
        activated(tmp_path, {"PATH": os.environ["PATH"]})


@pytest.mark.parametrize("text", ["", "[1]", '{"env_vars": 3}', "{" * 5000])
def test_damaged_settings_of_an_environment_set_nothing(tmp_path, text):
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "conda-meta/state").write_text(text)
    assert "CONDA_PREFIX" in activated(tmp_path, {})


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a home with environments that conda has made, one of them elsewhere."""
    for place in (
        "home/miniconda3/envs/first",
        "home/miniconda3/envs/both",
        "other/third",
        "x/both",
    ):
        (tmp_path / place / "conda-meta").mkdir(parents=True)
    (tmp_path / "home/miniconda3/conda-meta").mkdir()
    (tmp_path / "home/.conda").mkdir()
    (tmp_path / "home/.conda/environments.txt").write_text(
        f"{tmp_path}/other/third\n{tmp_path}/x/both\n{tmp_path}/gone\n{tmp_path}/home/miniconda3\n"
    )
    for name in ("MAMBA_ROOT_PREFIX", "CONDA_ROOT", "CONDA_EXE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def test_one_that_exists_is_found_by_its_name_and_by_its_directory(home):
    for spec, place in (
        (CondaSpec(name="first"), "home/miniconda3/envs/first"),
        (CondaSpec(name="third"), "other/third"),
        (CondaSpec(name="base"), "home/miniconda3"),
        (CondaSpec(prefix="other/third"), "other/third"),
        (CondaSpec(prefix="~/miniconda3/envs/both"), "home/miniconda3/envs/both"),
    ):
        assert existing_prefix(spec, home) == home / place


def test_a_directory_is_absolute_wherever_it_starts_from(home, monkeypatch):
    monkeypatch.chdir(home)
    assert existing_prefix(CondaSpec(prefix="./other/third"), Path()) == home / "other/third"


@pytest.mark.parametrize(
    ("spec", "words", "hint"),
    [
        (CondaSpec(name="frist"), "has no environment 'frist'", "It has first"),
        (CondaSpec(name="both"), "several environments are called 'both'", "prefix: PATH"),
        (CondaSpec(prefix="home"), "it has no conda-meta", ""),
    ],
)
def test_one_that_does_not_exist_is_named_with_those_near(home, spec, words, hint):
    with pytest.raises(RequestError, match=words) as raised:
        existing_prefix(spec, home)
    assert hint in (raised.value.hint or "")
