"""The index of runs shows what the directories hold, and reads again only what may have changed."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
import zlib
from pathlib import Path

import pytest

from tarmac.files import OwnerLock
from tarmac.jobs import JOB
from tarmac.runs import TRAINING, Catalogue, Run, RunIndex
from tarmac.studies import SEARCH

KINDS = {kind.name: kind for kind in (TRAINING, SEARCH, JOB)}


class Reading:
    """An index over a directory, which notes what it reads and which kinds it loads."""

    def __init__(self, output: Path, store: Path) -> None:
        self.output, self.store = output, store
        self.read: list[str] = []
        self.loaded: list[str] = []

    def load(self, name: str):
        self.loaded.append(name)
        kind = KINDS[name]

        def summarize(path: Path):
            self.read.append(path.name)
            return kind.summarize(path)

        return dataclasses.replace(kind, summarize=summarize)

    def open(self) -> RunIndex:
        self.read.clear()
        self.loaded.clear()
        return RunIndex(tuple(KINDS), self.load, self.output, self.store)


@pytest.fixture
def reading(tmp_path):
    output = tmp_path / "runs"
    output.mkdir()
    return Reading(output, tmp_path / "cache" / "index.json")


def training(output: Path, name: str, status: str = "completed", **changes) -> Run:
    run = Run.create(
        output,
        workload="digits-mlp",
        command=[],
        configuration={},
        dataset={},
        device={},
        versions={},
        seed=0,
        git=None,
        expectation=None,
        name=name,
    )
    run.update(status=status, **changes)
    return run


def age(output: Path, seconds: float = 60.0) -> None:
    """Make all that is there look as if it was written a while ago."""
    then = time.time() - seconds
    for path in output.rglob("*"):
        os.utime(path, (then, then))


def names(index: RunIndex) -> list[str]:
    return [summary.name for summary in index.summaries()[0]]


def test_it_says_what_the_catalogue_says(reading):
    training(reading.output, "a", metrics={"test_accuracy": 0.9}, elapsed_s=3.0)
    training(reading.output, "b", "failed")
    training(reading.output / "a" / "best", "winner")
    (reading.output / "no-run").mkdir()
    age(reading.output)
    catalogue = Catalogue([*KINDS.values()], reading.output)
    expected, _ = catalogue.read(lambda run: run.kind.summarize(run.path))
    expected.sort(key=lambda summary: summary.created_at, reverse=True)
    for _ in range(2):
        found, broken = reading.open().summaries()
        assert [*found] == expected
        assert not broken


def test_a_run_that_has_ended_is_read_once_and_its_kind_is_not_loaded_again(reading):
    training(reading.output, "a")
    age(reading.output)
    names(reading.open())
    assert reading.read == ["a"]
    assert names(reading.open()) == ["a"]
    assert reading.read == []
    assert reading.loaded == []


def test_a_run_at_work_is_read_each_time(reading):
    run = training(reading.output, "a", "running")
    age(reading.output)
    lock = OwnerLock(run.path / ".lock")
    assert lock.acquire()
    index = reading.open()
    assert [s.status for s in index.summaries()[0]] == ["running"]
    lock.release()
    assert [s.status for s in index.summaries()[0]] == ["interrupted"]
    assert reading.read == ["a", "a"]


def test_a_record_that_has_changed_is_read_again(reading):
    run = training(reading.output, "a", metrics={"test_accuracy": 0.5})
    age(reading.output)
    index = reading.open()
    names(index)
    run.update(metrics={"test_accuracy": 0.75})
    assert index.summaries()[0][0].metrics == {"test_accuracy": 0.75}
    assert reading.open().summaries()[0][0].metrics == {"test_accuracy": 0.75}


def test_what_was_written_a_moment_ago_is_not_trusted_to_look_otherwise_when_it_changes(reading):
    training(reading.output, "a")
    # However long the looks take: it stays a moment ago.
    age(reading.output, -1000.0)
    index = reading.open()
    names(index)
    names(index)
    assert reading.read == ["a", "a"]


def test_runs_that_were_removed_or_renamed_are_not_listed(reading):
    runs = [training(reading.output, name) for name in ("a", "b")]
    age(reading.output)
    index = reading.open()
    assert sorted(names(index)) == ["a", "b"]
    runs[0].path.rename(reading.output / "c")
    assert sorted(names(index)) == ["b", "c"]
    assert sorted(names(reading.open())) == ["b", "c"]
    assert reading.read == []


def test_a_search_that_begins_again_is_seen_by_its_workers(reading):
    path = reading.output / "study"
    (path / "workers").mkdir(parents=True)
    record = {
        "schema_version": 1,
        "id": "study",
        "name": "digits",
        "status": "running",
        "created_at": "2026-01-01T00:00:00Z",
        "request": {},
        "settings": {},
        "space": {},
        "fingerprint": "f",
        "train_size": 8,
        "validation_size": 2,
    }
    (path / "study.json").write_text(json.dumps(record))
    age(reading.output)
    index = reading.open()
    assert [s.status for s in index.summaries()[0]] == ["interrupted"]
    lock = OwnerLock(path / "workers" / "host-1")
    assert lock.acquire()
    assert [s.status for s in index.summaries()[0]] == ["running"]
    lock.release()


def test_a_damaged_run_is_named_with_the_reason_and_one_of_a_newer_version_too(reading):
    training(reading.output, "good")
    for name, text in {"half": '{"schema_ver', "newer": '{"schema_version": 999}'}.items():
        (reading.output / name).mkdir()
        (reading.output / name / "run.json").write_text(text)
    for _ in range(2):
        found, broken = reading.open().summaries()
        assert [s.name for s in found] == ["good"]
        reasons = {run.path.name: run.reason for run in broken}
        assert "is damaged" in reasons["half"]
        assert "newer Tarmac" in reasons["newer"]
    assert not reading.open().summaries(["job"])[1]


def test_one_kind_alone_is_returned_and_the_others_stay_known(reading):
    training(reading.output, "a")
    age(reading.output)
    names(reading.open())
    assert reading.open().summaries(["search"])[0] == []
    assert [s.name for s in reading.open().summaries(["training"])[0]] == ["a"]
    assert reading.read == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"version": 1}',
        b'{"version": 99, "output": "", "kinds": {}, "runs": []}',
        b'{"version": 2, "output": "OUTPUT", "kinds": [], "runs": [[]]}',
        b'{"version": 2, "output": "OUTPUT", "kinds": {"training": 3}, "runs": {}}',
        b'{"version": 2, "output": "OUTPUT", "kinds": {}, '
        b'"runs": [["a", [null], "x", "y", "2026-01-01", 1, null, "", {}]]}',
    ],
)
def test_a_damaged_index_is_made_anew(reading, content):
    training(reading.output, "a")
    age(reading.output)
    reading.store.parent.mkdir()
    content = content.replace(b"OUTPUT", str(reading.output).encode())
    reading.store.write_bytes(b"%s\n%08x" % (content, zlib.crc32(content)))
    assert names(reading.open()) == ["a"]
    assert names(reading.open()) == ["a"]
    assert reading.read == []


def test_a_flipped_bit_of_an_index_hides_no_run(reading):
    training(reading.output, "a")
    age(reading.output)
    assert names(reading.open()) == ["a"]
    content = bytearray(reading.store.read_bytes())
    content[content.index(b"run.json")] ^= 1
    reading.store.write_bytes(content)
    assert names(reading.open()) == ["a"]


def test_an_index_that_cannot_be_written_changes_nothing_but_the_time(reading):
    training(reading.output, "a")
    age(reading.output)
    reading.store.parent.write_text("no directory")
    for _ in range(2):
        assert names(reading.open()) == ["a"]
        assert reading.read == ["a"]


def test_the_index_is_its_owners_alone(reading):
    training(reading.output, "a")
    age(reading.output)
    names(reading.open())
    assert reading.store.stat().st_mode & 0o077 == 0


def test_a_link_that_leads_to_itself_hides_no_run(reading):
    for name in ("a", "b", "c"):
        training(reading.output, name)
        (reading.output / f"loop-{name}").symlink_to(f"loop-{name}")
    assert sorted(names(reading.open())) == ["a", "b", "c"]


def test_there_are_no_runs_where_there_is_no_directory(reading):
    reading.output.rmdir()
    assert reading.open().summaries() == ([], [])


def test_a_directory_that_may_not_be_entered_is_named(reading, second_user, open_directory):
    output = open_directory / "runs"
    output.mkdir()
    training(output, "a")
    training(output, "closed")
    (output / "closed").chmod(0o700)

    def look():
        index = RunIndex(tuple(KINDS), KINDS.__getitem__, output, Path("/nowhere/index.json"))
        found, broken = index.summaries()
        return [s.name for s in found], [(run.path.name, run.reason) for run in broken]

    assert second_user(look) == (["a"], [("closed", "cannot read it: Permission denied")])


def test_indexes_that_have_not_changed_for_a_month_are_removed(reading):
    old = reading.store.with_name("of-a-directory-that-is-gone.json")
    recent = reading.store.with_name("of-another.json")
    reading.store.parent.mkdir()
    for path in (old, recent):
        path.write_text("{}")
    month_ago = time.time() - 31 * 86_400
    os.utime(old, (month_ago, month_ago))
    training(reading.output, "a")
    age(reading.output)
    reading.open().summaries()
    assert reading.store.exists()
    assert not old.exists()
    assert recent.exists()


def test_indexes_of_directories_that_are_gone_are_removed(reading, tmp_path):
    training(reading.output, "a")
    age(reading.output)
    for name in ("gone", "here"):
        output = tmp_path / name
        training(output, "b")
        age(output)
        store = reading.store.with_name(f"{name}.json")
        RunIndex(tuple(KINDS), KINDS.__getitem__, output, store).summaries()
    shutil.rmtree(tmp_path / "gone")
    reading.store.with_name("of-a-later-version.json").write_text('{"output": "/nowhere"}')
    reading.open().summaries()
    kept = {path.name for path in reading.store.parent.iterdir()}
    assert kept == {reading.store.name, "here.json", "of-a-later-version.json"}
