"""The runs that are at work, among all."""

import json
import os

import pytest

from tarmac.files import OwnerLock, Readings, write_json
from tarmac.monitor.run_discovery import RunDiscovery, runs_among


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def hold():
    """Hold a run's lock until the test ends, or the lock is given back."""
    locks = []

    def hold(path):
        locks.append(OwnerLock(path / ".lock"))
        assert locks[-1].acquire()
        return locks[-1]

    yield hold
    for lock in locks:
        lock.release()


def make(output, name, status="running", record="run.json"):
    path = output / name
    path.mkdir(parents=True)
    fields = {"status": status, "num_tasks": 1, "created_at": "2026-11-27T00:00:00+00:00"}
    (path / record).write_text(json.dumps(fields))
    return path


def age(path):
    """Let a directory seem not to have changed for long."""
    os.utime(path, (1_000_000, 1_000_000))


def names(sight, *others):
    return [one.name for one in sight.look(others)]


def test_of_all_runs_those_at_work_are_seen(tmp_path, clock, hold):
    hold(make(tmp_path, "b"))
    hold(make(tmp_path, "a"))
    make(tmp_path, "killed")
    make(tmp_path, "done", "completed")
    make(tmp_path, ".removed")
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    sight = RunDiscovery(tmp_path, Readings(), clock)
    assert names(sight) == ["a", "b"]


def test_a_new_run_is_seen_soon(tmp_path, clock, hold):
    sight = RunDiscovery(tmp_path, Readings(), clock)
    assert names(sight) == []
    hold(make(tmp_path, "new"))
    clock.now = 2.0
    assert names(sight) == ["new"]


def test_a_run_that_ends_is_no_longer_seen_and_its_end_is_known(tmp_path, clock, hold):
    path = make(tmp_path, "run")
    lock = hold(path)
    sight = RunDiscovery(tmp_path, Readings(), clock)
    assert names(sight) == ["run"]
    (path / "run.json").write_text(json.dumps({"status": "failed", "error": "no memory"}))
    lock.release()
    assert names(sight) == []
    last = sight.last_of(path)
    assert last is not None
    assert (last.status, last.note) == ("failed", "no memory")


def test_an_old_run_that_goes_on_is_seen_again(tmp_path, clock, hold):
    path = make(tmp_path, "run", "completed")
    age(path)
    sight = RunDiscovery(tmp_path, Readings(), clock)
    assert names(sight) == []
    hold(path)
    write_json(path / "run.json", {"status": "running"})
    clock.now = 10.0
    assert names(sight) == ["run"]
    # Its directory does not change for long, as in a long epoch.
    age(path)
    assert [names(sight) for clock.now in (20.0, 30.0, 40.0)] == [["run"]] * 3


def test_a_run_that_was_removed_is_forgotten(tmp_path, clock, hold):
    path = make(tmp_path, "run")
    hold(path)
    sight = RunDiscovery(tmp_path, Readings(), clock)
    assert names(sight) == ["run"]
    path.rename(tmp_path / ".run.removed")
    clock.now = 2.0
    assert names(sight) == []
    assert sight.last_of(path) is None


def test_a_run_of_another_directory_is_seen_while_a_process_works_on_it(tmp_path, clock, hold):
    other = make(tmp_path / "elsewhere", "run")
    hold(other)
    sight = RunDiscovery(tmp_path / "runs", Readings(), clock)
    assert names(sight, other) == ["run"]


def test_two_runs_of_one_name_are_told_apart(tmp_path, clock, hold):
    hold(make(tmp_path / "runs", "run"))
    other = make(tmp_path / "elsewhere", "run")
    hold(other)
    sight = RunDiscovery(tmp_path / "runs", Readings(), clock)
    assert names(sight, other) == ["run", str(other)]


def test_jobs_and_searches_are_seen_too(tmp_path, clock, hold):
    hold(make(tmp_path, "job", record="job-run.json"))
    search = make(tmp_path, "search", record="study.json")
    (search / "workers").mkdir()
    lock = OwnerLock(search / "workers" / "host-7-abcd")
    assert lock.acquire()
    make(tmp_path, "old-job", record="job-run.json")
    make(tmp_path, "old-search", record="study.json")
    sight = RunDiscovery(tmp_path, Readings(), clock)
    assert [(one.name, one.kind) for one in sight.look()] == [
        ("job", "job"),
        ("search", "search"),
    ]
    lock.release()


def test_a_directory_that_is_not_there_has_no_runs(tmp_path, clock):
    assert names(RunDiscovery(tmp_path / "none", Readings(), clock)) == []


def test_only_runs_are_runs(tmp_path):
    run = make(tmp_path, "run")
    assert runs_among([run, tmp_path, tmp_path / "none"]) == (run,)
