"""Datasets are fetched whole and right from mirrors that break off, lie or are away."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hostile import each_name
from tarmac import TarmacError, data

IMAGES = "train-images-idx3-ubyte.gz"

# Runs in a process of its own, so it puts the small dataset in MNIST's place itself.
FETCH = """
import dataclasses, hashlib, os, signal, sys
sys.path.insert(0, sys.argv[3])
import conftest
from tarmac import data
from tarmac.data import sources as _sources
layout = tuple(_sources.DataFile(name, md5=hashlib.md5(content).hexdigest())
               for name, content in conftest.contents().items())
_sources.SOURCES["mnist"] = dataclasses.replace(
    _sources.SOURCES["mnist"], layouts=(layout,), mirrors=(sys.argv[1],))
from pathlib import Path
def progress(done, total, file):
    if len(sys.argv) > 4:
        os.kill(os.getpid(), signal.SIGKILL)
data.fetch("mnist", Path(sys.argv[2]), progress=progress)
"""


def fetch_command(mirror, root: Path, *extra: str) -> list[str]:
    here = str(Path(__file__).parent)
    return [sys.executable, "-c", FETCH, mirror.url, str(root), here, *extra]


def test_what_is_missing_is_fetched_when_it_is_loaded(tmp_path, mirror, small):
    loaded = data.load("mnist", tmp_path)
    assert loaded.train.inputs.shape == (200, 5, 5)
    assert loaded.test.targets.dtype == np.int64
    assert sorted(mirror.files) == sorted(name for name, _ in mirror.requests)
    mirror.requests.clear()
    assert data.load("mnist", tmp_path).fingerprint == loaded.fingerprint
    assert not mirror.requests


def test_a_download_that_breaks_off_goes_on_where_it_was(tmp_path, mirror, small):
    mirror.faults[IMAGES] = ["break", "break"]
    data.fetch("mnist", tmp_path)
    ranges = [asked for name, asked in mirror.requests if name == IMAGES]
    assert ranges[0] is None
    starts = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in ranges[1:]]
    assert 0 < starts[0] < starts[1] < len(mirror.files[IMAGES])
    assert all(status.ok for status in data.verify("mnist", tmp_path))


def test_a_server_without_ranges_is_asked_for_the_whole_again(tmp_path, mirror, small):
    mirror.with_ranges = False
    mirror.faults[IMAGES] = ["break"]
    data.fetch("mnist", tmp_path)
    assert all(status.ok for status in data.verify("mnist", tmp_path))


def test_a_killed_download_is_resumed_by_the_next_process(tmp_path, mirror, small):
    process = subprocess.run(fetch_command(mirror, tmp_path, "kill"), check=False)
    assert process.returncode == -signal.SIGKILL
    # What a process killed in mid-download leaves: the first part of the file.
    part = tmp_path / "mnist" / f"{IMAGES}.part"
    part.write_bytes(mirror.files[IMAGES][:100])
    data.fetch("mnist", tmp_path)
    assert (IMAGES, "bytes=100-") in mirror.requests
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("left", [b"rubbish", b"x" * 100_000])
def test_a_rest_of_another_version_is_thrown_away(tmp_path, mirror, small, left):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / f"{IMAGES}.part").write_bytes(left)
    data.fetch("mnist", tmp_path)
    assert all(status.ok for status in data.verify("mnist", tmp_path))


def test_another_compression_of_the_same_content_serves(tmp_path, mirror, small):
    mirror.files[IMAGES] = gzip.compress(small[IMAGES.removesuffix(".gz")], compresslevel=1)
    data.fetch("mnist", tmp_path)
    assert data.load("mnist", tmp_path).train.inputs.shape == (200, 5, 5)


def test_the_next_mirror_is_tried_and_a_mirror_of_ones_own_first(
    tmp_path, mirror, small, monkeypatch
):
    monkeypatch.setenv("TARMAC_MIRROR", f"{mirror.url}own")
    mirror.files[f"own/mnist/{IMAGES}"] = mirror.files[IMAGES]
    data.fetch("mnist", tmp_path)
    names = [name for name, _ in mirror.requests]
    assert names[0] == f"own/mnist/{IMAGES}"
    assert IMAGES not in names
    assert "train-labels-idx1-ubyte.gz" in names


def test_unreachable_data_say_what_was_tried_and_two_ways_on(tmp_path, mirror, small):
    mirror.files.clear()
    with pytest.raises(TarmacError) as caught:
        data.load("mnist", tmp_path)
    message = str(caught.value)
    assert f"{mirror.url}{IMAGES}: HTTP 404" in message
    assert "tarmac data add mnist --from DIR" in message
    assert "tarmac train digits-mlp" in message


def test_wrong_content_is_refused_and_nothing_of_it_kept(tmp_path, mirror, small):
    mirror.files[IMAGES] = gzip.compress(b"a page that says: sign in to the network")
    with pytest.raises(TarmacError, match="could not be downloaded") as caught:
        data.fetch("mnist", tmp_path)
    assert "expected" in caught.value.hint
    assert not list((tmp_path / "mnist").glob(f"{IMAGES}*"))


def test_two_processes_fetch_once(tmp_path, mirror, small):
    processes = [subprocess.Popen(fetch_command(mirror, tmp_path)) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert sorted(name for name, _ in mirror.requests) == sorted(mirror.files)


def test_only_what_is_missing_or_damaged_is_fetched(tmp_path, mirror, small):
    data.fetch("mnist", tmp_path)
    mirror.requests.clear()
    damaged = tmp_path / "mnist" / IMAGES
    damaged.write_bytes(damaged.read_bytes()[:-20])
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    data.fetch("mnist", tmp_path)
    assert [name for name, _ in mirror.requests] == [IMAGES, "t10k-labels-idx1-ubyte.gz"]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "other"])
def test_a_damaged_file_is_named_with_the_way_to_mend_it(tmp_path, mirror, small, damage):
    data.fetch("mnist", tmp_path)
    path = tmp_path / "mnist" / IMAGES
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(
        {
            "truncated": mirror.files[IMAGES][:-100],
            "flipped": bytes(content),
            "empty": b"",
            "other": mirror.files["t10k-images-idx3-ubyte.gz"],
        }[damage]
    )
    with pytest.raises(TarmacError, match=f"{IMAGES} is damaged") as caught:
        data.load("mnist", tmp_path)
    assert "tarmac data fetch mnist" in caught.value.hint
    wrong = [status for status in data.verify("mnist", tmp_path) if not status.ok]
    assert [status.name for status in wrong] == ["train-images-idx3-ubyte"]


def test_present_data_load_from_a_directory_that_cannot_be_written(tmp_path, mirror, small):
    data.fetch("mnist", tmp_path)
    (tmp_path / "mnist" / ".lock").unlink(missing_ok=True)
    listed = sorted((tmp_path / "mnist").iterdir())
    data.load("mnist", tmp_path)
    assert sorted((tmp_path / "mnist").iterdir()) == listed


def test_what_another_user_has_fetched_is_taken_as_it_is(
    open_directory, mirror, small, second_user
):
    directory = data.fetch("mnist", open_directory)
    mirror.requests.clear()
    assert data.fetch("mnist", open_directory) == directory
    assert second_user(lambda: data.fetch("mnist", open_directory)) == directory
    next(directory.glob("*labels*")).unlink()
    with pytest.raises(TarmacError, match="cannot lock"):
        second_user(lambda: data.fetch("mnist", open_directory))
    assert not mirror.requests


def test_a_root_that_cannot_be_written_is_named(tmp_path, small):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TarmacError, match=r"cannot write .*file/mnist"):
        data.fetch("mnist", tmp_path / "file")


@each_name
def test_datasets_are_fetched_into_directories_of_any_name(tmp_path, mirror, small, name):
    data.fetch("mnist", tmp_path / name)
    assert all(status.ok for status in data.verify("mnist", tmp_path / name))


def test_a_login_to_a_mirror_is_in_no_message(tmp_path, mirror, small, monkeypatch):
    monkeypatch.setenv("TARMAC_MIRROR", f"http://me:hunter2@127.0.0.1:{mirror.server_port}/own")
    mirror.files.clear()
    with pytest.raises(TarmacError) as caught:
        data.fetch("mnist", tmp_path)
    assert f"{mirror.url}own/mnist/{IMAGES}: HTTP 404" in str(caught.value)
    assert "hunter2" not in str(caught.value)
