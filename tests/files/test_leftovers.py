"""What a killed process has left is removed by whoever comes next, and nothing else."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import time
from pathlib import Path

import pytest

from damaged_records import make_training
from killed import killed_at
from tarmac import runs
from tarmac.files import (
    leftovers,
    remove_abandoned,
    scratch_directory,
    temporary_directory,
    temporary_path,
    write_text,
)

DAY_S = 86_400


@pytest.fixture(autouse=True)
def _nothing_swept():
    leftovers.sweep_once.cache_clear()


def as_killed(make):
    """Return what `make` returns in a process that is gone without cleaning up."""
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        try:
            os.write(writer, str(make()).encode())
        finally:
            # What `make` raises would go on with the tests in this process, too.
            os._exit(9)
    os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(reader) as file:
        returned = file.read()
    assert returned, "it has raised an error"
    return returned


def fill(directory, *, suffix=".part", is_folder=False):
    path = temporary_path(directory, suffix)
    if is_folder:
        (path / "inner").mkdir(parents=True)
        (path / "inner" / "file").write_text("half")
    else:
        path.write_text("half")
    return path.name


def grow_old(path, seconds):
    then = time.time() - seconds
    for inner in [*path.rglob("*"), path]:
        os.utime(inner, (then, then))


@pytest.mark.parametrize("is_folder", [False, True])
def test_what_cannot_be_removed_stays_and_fails_nobody(tmp_path, monkeypatch, is_folder):
    left = tmp_path / as_killed(lambda: fill(tmp_path, is_folder=is_folder))

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("unlink", "rmdir"):
        monkeypatch.setattr(os, name, refuse)
    remove_abandoned(tmp_path)
    assert left.exists()


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("suffix", [".part", ".removed", ".lease"])
def test_what_a_killed_process_has_left_is_removed(tmp_path, suffix, is_folder):
    as_killed(lambda: fill(tmp_path, suffix=suffix, is_folder=is_folder))
    assert len([*tmp_path.iterdir()]) == 1
    remove_abandoned(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_a_program_may_have_a_name_that_is_no_text(tmp_path):
    comm = Path("/proc/self/comm")
    before = comm.read_bytes().strip()
    comm.write_bytes(b"\xff) Z 1")
    try:
        name = fill(tmp_path)
        remove_abandoned(tmp_path)
    finally:
        comm.write_bytes(before)
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("is_folder", [False, True])
def test_what_a_living_process_writes_stays_however_old_it_is(tmp_path, is_folder):
    name = fill(tmp_path, is_folder=is_folder)
    grow_old(tmp_path / name, 9 * DAY_S)
    as_killed(lambda: remove_abandoned(tmp_path))
    assert (tmp_path / name).exists()


@pytest.mark.parametrize(
    "name",
    [
        ".01234567-PID-12345-01234567.part",
        ".0123456789abcdef.part",
        ".0123456789abcdef.lease",
        ".0123456789abcdef.new",
        ".mnist-mlp-20261126-151617-abcd.01234567.removed",
        ".a run.01234567.part",
        ".export-a1_b2c3d",
    ],
)
def test_what_another_host_or_an_older_version_writes_stays_for_a_day(tmp_path, name):
    # In a parameter the number would differ from worker to worker.
    name = name.replace("PID", str(os.getpid()))
    (tmp_path / name).mkdir()
    (tmp_path / name / "inner").write_text("half")
    grow_old(tmp_path / name, 2 * DAY_S)
    (tmp_path / name / "inner").touch()
    remove_abandoned(tmp_path)
    assert (tmp_path / name).exists()
    grow_old(tmp_path / name, 2 * DAY_S)
    remove_abandoned(tmp_path)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        ".part",
        ".hidden",
        ".0123.part",
        "0123456789abcdef.part",
        ".x.old",
        ".export-",
        "mnist.gz.part",
    ],
)
def test_files_of_other_names_stay(tmp_path, name):
    (tmp_path / name).write_text("mine")
    grow_old(tmp_path / name, 9 * DAY_S)
    remove_abandoned(tmp_path)
    assert (tmp_path / name).read_text() == "mine"


def test_links_are_removed_and_not_followed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    as_killed(lambda: temporary_path(tmp_path).symlink_to(tmp_path / "mine"))
    remove_abandoned(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine" / "file").exists()


def test_nobody_removes_what_another_user_has_left(open_directory, second_user):
    open_directory.chmod(0o777)
    name = second_user(lambda: fill(open_directory))
    remove_abandoned(open_directory)
    assert (open_directory / name).exists()
    second_user(lambda: remove_abandoned(open_directory))
    assert not (open_directory / name).exists()


def test_writing_a_file_removes_what_was_left_beside_it(tmp_path):
    as_killed(lambda: fill(tmp_path))
    write_text(tmp_path / "file", "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_temporary_directory_goes_with_its_block_and_takes_what_was_left(tmp_path):
    as_killed(lambda: fill(tmp_path, is_folder=True))
    with temporary_directory(tmp_path) as path:
        assert [*tmp_path.iterdir()] == [path]
        assert re.fullmatch(r"\.[0-9a-f]{8}-\d+-\d+-[0-9a-f]{8}\.part", path.name)
    assert not [*tmp_path.iterdir()]


def test_a_scratch_directory_is_private_and_takes_what_the_killed_have_left(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    others = [tmp_path / ".download.0123abcd.part", tmp_path / "tarmac.log"]
    for other in others:
        other.touch()
        os.utime(other, (0, 0))

    open_ones = []

    def leave():
        open_ones.append(scratch_directory())
        path = open_ones[0].__enter__()
        (path / "file").write_text("half")
        return path

    as_killed(leave)
    assert len([*tmp_path.iterdir()]) == 3
    with scratch_directory() as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert {*tmp_path.iterdir()} == {path, *others}
    assert {*tmp_path.iterdir()} == {*others}


def test_a_write_that_is_killed_leaves_a_whole_file_and_nothing_for_the_next(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    number = 0
    while killed_at(number := number + 1, lambda: write_text(path, "new")):
        assert path.read_text() in ("old", "new")
        leftovers.sweep_once.cache_clear()
        write_text(path, "old")
        assert [*tmp_path.iterdir()] == [path]
    assert number > 3


@pytest.mark.parametrize("then", ["train", "rm"])
def test_a_removal_that_is_killed_is_finished_by_the_next(tmp_path, then):
    catalogue = runs.Catalogue((runs.TRAINING,), tmp_path)
    number, is_killed = 0, True
    while is_killed:
        number += 1
        for name in ("doomed", "other"):
            if not (tmp_path / name).exists():
                make_training(tmp_path, name)
        doomed, other = (catalogue.find(name) for name in ("doomed", "other"))
        is_killed = killed_at(number, lambda doomed=doomed: catalogue.remove(doomed))
        shown = {path.name for path in tmp_path.iterdir()} & {"doomed", "other"}
        if then == "train":
            left = {*tmp_path.iterdir()}
            store = tmp_path.parent / f"{tmp_path.name}.json"
            index = runs.RunIndex(("training",), lambda _name: runs.TRAINING, tmp_path, store)
            assert {run.name for run in index.summaries()[0]} == shown
            assert {*tmp_path.iterdir()} == left
            shutil.rmtree(make_training(tmp_path, "next"))
        else:
            catalogue.remove(other)
            shown -= {"other"}
        assert {path.name for path in tmp_path.iterdir()} == shown
    assert number > 10
