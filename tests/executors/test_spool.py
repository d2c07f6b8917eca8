"""Secrets for nodes are in files of the user's alone, and gone with their run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hostile import each_name
from tarmac.errors import RequestError
from tarmac.executors.spool import Spool, sweep_spools
from tarmac.files import StorageError


@pytest.fixture
def root(tmp_path):
    return tmp_path / "spool"


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "runs/x-1"
    path.mkdir(parents=True)
    return path


def test_a_secret_is_for_its_user_alone_from_its_first_byte_on(run, root):
    old = os.umask(0)
    try:
        path = Spool(run, root).put("TOKEN", b"hunter2")
    finally:
        os.umask(old)
    assert path.read_bytes() == b"hunter2"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert root.stat().st_mode & 0o777 == 0o700
    assert not path.is_relative_to(run)


def test_nothing_is_made_before_there_is_a_secret(run, root):
    spool = Spool(run, root)
    assert spool.directory.parent == root
    spool.remove()
    assert not root.exists()


def test_a_secret_that_has_changed_takes_the_place_of_the_earlier_one(run, root):
    earlier = Spool(run, root).put("TOKEN", b"old")
    assert Spool(run, root).put("TOKEN", b"new") == earlier
    assert earlier.read_bytes() == b"new"


def test_the_next_session_removes_what_a_killed_one_has_left(run, root):
    path = Spool(run, root).put("TOKEN", b"hunter2")
    Spool(run, root).remove()
    assert not path.parent.exists()


def test_runs_of_one_name_in_two_places_have_spools_of_their_own(tmp_path, root):
    places = [tmp_path / name / "run" for name in ("a", "b")]
    assert len({Spool(place, root).directory for place in places}) == 2


@each_name
def test_a_run_may_have_any_name(tmp_path, root, name):
    run = tmp_path / name
    run.mkdir()
    path = Spool(run, root).put("TOKEN", b"hunter2")
    shutil.rmtree(run)
    sweep_spools(root)
    assert not path.parent.exists()


def test_the_sweep_takes_what_removed_runs_have_left_and_nothing_else(tmp_path, root):
    there, gone, unmounted = (tmp_path / name / "run" for name in ("a", "b", "c"))
    paths = []
    for run in (there, gone, unmounted):
        run.mkdir(parents=True)
        paths.append(Spool(run, root).put("TOKEN", b"hunter2"))
    gone.rmdir()
    shutil.rmtree(unmounted.parent)
    sweep_spools(root)
    assert [path.exists() for path in paths] == [True, False, True]


def test_a_place_that_others_can_open_is_refused(run, root):
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    with pytest.raises(RequestError, match="others could read") as caught:
        Spool(run, root).put("TOKEN", b"hunter2")
    assert "TARMAC_SPOOL" in (caught.value.hint or "")
    assert not any(root.iterdir())


def test_a_link_in_its_place_is_refused(run, root, tmp_path):
    root.mkdir(mode=0o700)
    (tmp_path / "theirs").mkdir(mode=0o700)
    spool = Spool(run, root)
    spool.directory.symlink_to(tmp_path / "theirs")
    with pytest.raises(RequestError, match="others could read"):
        spool.put("TOKEN", b"hunter2")
    assert not any((tmp_path / "theirs").iterdir())


def test_a_directory_of_another_user_is_refused(run, open_directory, second_user):
    theirs = open_directory / "spool"
    second_user(lambda: theirs.mkdir(mode=0o700))
    with pytest.raises(RequestError, match="others could read"):
        Spool(run, theirs).put("TOKEN", b"hunter2")


def test_another_user_reads_no_secret(run, open_directory, second_user):
    path = Spool(run, open_directory / "spool").put("TOKEN", b"hunter2")
    with pytest.raises(PermissionError):
        second_user(path.read_bytes)


def test_a_full_disk_is_said_and_leaves_nothing(run, small_disk):
    disk = small_disk("64k")
    spool = Spool(run, disk / "spool")
    with pytest.raises(StorageError, match="no space left"):
        spool.put("TOKEN", b"x" * 2**20)
    assert not [path for path in spool.directory.iterdir() if path.stat().st_size > 1000]


def test_a_variable_names_the_place(run, tmp_path, monkeypatch):
    monkeypatch.setenv("TARMAC_SPOOL", str(tmp_path / "elsewhere"))
    assert Spool(run).directory.parent == tmp_path / "elsewhere"
    monkeypatch.delenv("TARMAC_SPOOL")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert Spool(run).directory.parent == tmp_path / "state/tarmac/spool"
    assert isinstance(Spool(run).directory, Path)
