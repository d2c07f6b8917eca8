"""PyTorch's compiler runs what it finds in a directory of temporary files: only in this user's."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path

import pytest
from torch._inductor.runtime import cache_dir_utils

from tarmac import RequestError
from tarmac.machine import find_devices
from tarmac.training import find_strategy
from tarmac.training.planning.compiler_place import directory_of_compiler, why_no_compiler
from tarmac.training.planning.precision import choose_compile

CPU = find_devices("cpu")[0]
GPU = dataclasses.replace(CPU, type="cuda")
SINGLE = find_strategy("single")


@pytest.fixture
def shared(tmp_path, monkeypatch) -> Path:
    """A directory of everybody's, as /tmp is, for temporary files."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    directory.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    monkeypatch.setenv("LOGNAME", "me")
    return directory


@pytest.mark.parametrize("user", ["me", 'a/b:c"d'])
def test_the_directory_is_that_of_pytorch(shared, monkeypatch, user):
    monkeypatch.setenv("LOGNAME", user)
    assert directory_of_compiler().parent == shared
    assert str(directory_of_compiler()) == cache_dir_utils.default_cache_dir()


@pytest.mark.parametrize("mode", [None, 0o700, 0o755, 0o775])
def test_nothing_speaks_against_an_own_one(shared, mode):
    if mode is not None:
        (shared / "torchinductor_me").mkdir()
        (shared / "torchinductor_me").chmod(mode)
    assert why_no_compiler() is None
    assert choose_compile("on", CPU, SINGLE, 1.0) == (True, "as requested")
    assert choose_compile("auto", GPU, SINGLE, 1e18)[0]
    assert not choose_compile("auto", GPU, find_strategy("fsdp"), 1e18)[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")
def test_one_that_another_user_has_made_is_refused(shared):
    foreign = shared / "torchinductor_me"
    foreign.mkdir()
    os.chown(foreign, 12345, 12345)
    assert str(why_no_compiler()).endswith(f"{foreign}, which belongs to 12345")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("writable", "which everybody can write"),
        ("link", "which is not a directory"),
        ("file", "which is not a directory"),
        ("exchangeable", "and everybody can write "),
        ("spaced", "does not quote paths"),
    ],
)
def test_one_that_does_not_serve_is_refused_or_not_used(shared, tmp_path, monkeypatch, how, why):
    place = shared / "torchinductor_me"
    if how == "writable":
        place.mkdir()
        place.chmod(0o777)
    elif how == "link":
        place.symlink_to(tmp_path)
    elif how == "file":
        place.touch()
    elif how == "exchangeable":
        shared.chmod(0o777)
    else:
        (tmp_path / "it's a place").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "it's a place"))
    with pytest.raises(RequestError, match=why) as raised:
        choose_compile("on", CPU, SINGLE, 1.0)
    assert "export TMPDIR=" in raised.value.hint
    is_on, reason = choose_compile("auto", GPU, SINGLE, 1e18)
    assert not is_on
    assert why in reason
    assert choose_compile("off", CPU, SINGLE, 1.0) == (False, "as requested")
    assert not choose_compile("auto", CPU, SINGLE, 1e18)[0]
