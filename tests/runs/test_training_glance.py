"""What a monitor shows of a training."""

import json
import os
import time

import pytest

from tarmac.files import OwnerLock, Readings
from tarmac.monitor.hangs import Rank, find_hang
from tarmac.runs import glance_training

RECORD = {
    "schema_version": 3,
    "workload": "digits-mlp",
    "status": "running",
    "created_at": "2026-11-22T12:00:00Z",
    "configuration": {"epochs": 10},
    "device": {"type": "cuda", "uuid": "GPU-a"},
    "launch": "",
    "sessions": [
        {"started_at": "2026-11-22T12:00:01Z", "pid": 40},
        {"started_at": "2026-11-22T13:00:01Z", "pid": 41},
    ],
}


@pytest.fixture
def make(tmp_path):
    """Write a run's directory; one that is at work has its lock held while the test lasts."""
    locks = []

    def make(rows=(), *, is_held=True, **changes):
        path = tmp_path / "run"
        (path / "checkpoints").mkdir(parents=True)
        (path / "run.json").write_text(json.dumps(RECORD | changes))
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (path / "metrics.jsonl").write_text(text)
        if is_held:
            locks.append(OwnerLock(path / ".lock"))
            assert locks[-1].acquire()
        return path

    yield make
    for lock in locks:
        lock.release()


def row(epoch, seconds=2.0, **fields):
    return {"epoch": epoch, "loss": 1 / epoch, "accuracy": 0.5, "seconds": seconds, **fields}


def test_a_training_at_work_is_shown_by_its_last_epoch(make):
    rows = [row(1), row(2), row(3, samples_per_s=4000.0, val_accuracy=0.75)]
    found = glance_training(make(rows))
    assert (found.kind, found.name, found.status) == ("training", "run", "running")
    assert (found.workload, found.epoch, found.epochs) == ("digits-mlp", 3, 10)
    assert (found.metric_name, found.metric) == ("val_accuracy", 0.75)
    assert (found.samples_per_s, found.loss) == (4000.0, 1 / 3)
    assert (found.pids, found.uuids, found.retries) == ((41,), ("GPU-a",), 1)
    assert found.step_s == 2.0
    assert found.eta_s == pytest.approx(14.0, abs=5)


def test_before_its_first_epoch_little_is_known(make):
    found = glance_training(make())
    assert (found.epoch, found.loss, found.metric, found.step_s, found.eta_s) == (
        0,
        None,
        None,
        None,
        None,
    )
    assert found.active_at == found.started_at


def test_without_its_lock_a_training_was_interrupted_and_has_no_process(make):
    found = glance_training(make([row(1)], is_held=False))
    assert (found.status, found.pids, found.eta_s) == ("interrupted", (), None)


def test_a_completed_training_shows_its_score(make):
    path = make([row(10)], is_held=False, status="completed", metrics={"test_accuracy": 0.97})
    found = glance_training(path)
    assert (found.status, found.metric_name, found.metric) == ("completed", "test_accuracy", 0.97)


def test_a_failed_training_says_why(make):
    path = make(is_held=False, status="failed", error="out of memory")
    assert glance_training(path).note == "out of memory"


def test_a_checkpoint_is_a_sign_of_life(make):
    path = make([row(1)])
    newest = path / "checkpoints" / "epoch-0001.safetensors"
    newest.touch()
    later = time.time() + 1000
    os.utime(newest, (later, later))
    (path / "checkpoints" / "half").touch()
    found = glance_training(path)
    assert found.checkpoint_at is not None
    assert found.checkpoint_at.timestamp() == pytest.approx(later)
    assert found.active_at == found.checkpoint_at


@pytest.mark.parametrize(
    ("fields", "waits"),
    [
        ({}, {}),
        ({"data_wait_s": 0.5}, {"data": 0.25}),
        ({"data_wait_s": 0.5, "rank_wait_s": 1.0}, {"data": 0.25, "ranks": 0.5}),
        ({"data_wait_s": 99.0}, {"data": 1.0}),
        ({"data_wait_s": "much"}, {}),
    ],
)
def test_waits_are_shares_of_the_last_epochs(make, fields, waits):
    before = [row(n, data_wait_s=2.0) for n in range(1, 4)] if fields else []
    rows = [*before, *(row(n, **fields) for n in range(4, 9))]
    if "data_wait_s" in fields and isinstance(fields["data_wait_s"], str):
        rows = rows[-5:]
    assert glance_training(make(rows)).waits == waits


def test_ranks_of_the_last_session_are_told_with_the_gpus_of_this_host(make):
    replicas = [
        {"rank": n, "host": host, "device": {"uuid": f"GPU-{n}"}, "samples_per_s": 100.0 - n}
        for n, host in ((0, os.uname().nodename), (1, "other"))
    ]
    found = glance_training(make(parallel={"replicas": replicas}))
    assert [(one["rank"], one["samples_per_s"]) for one in found.ranks] == [(0, 100.0), (1, 99.0)]
    assert found.uuids == ("GPU-a", "GPU-0")


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": 99, "status": "paused", "sessions": "none", "configuration": []},
        {"created_at": "yesterday", "device": None, "parallel": {"replicas": [1, {}]}},
        {"sessions": [{"pid": "x"}, 3], "metrics": 7, "launch": None},
    ],
)
def test_a_run_of_a_newer_version_is_shown_as_far_as_it_can_be(make, changes):
    found = glance_training(make([row(1)], is_held=False, **changes))
    assert found.epoch == 1
    assert found.status in ("paused", "interrupted")


@pytest.mark.parametrize("content", ["", '{"status": "runn', "[]", "\0"])
def test_half_a_record_is_a_run_of_which_nothing_is_known(make, content):
    path = make()
    (path / "run.json").write_text(content)
    (path / "metrics.jsonl").write_text('{"epoch": 1, "lo')
    found = glance_training(path)
    assert (found.status, found.epoch, found.workload) == ("unknown", None, None)


def test_a_run_that_is_gone_is_unknown(tmp_path):
    assert glance_training(tmp_path / "none").status == "unknown"


def test_a_second_look_reads_only_what_has_grown(make):
    path, readings = make([row(1)]), Readings()
    assert glance_training(path, readings).epoch == 1
    with (path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row(2)) + "\n" + '{"epoch": 3')
    assert glance_training(path, readings).epoch == 2


def test_of_its_samples_it_takes_energy_and_when_its_gpus_last_worked(make):
    path = make([row(1)])
    points = [
        {"kind": "session", "at_s": 0.0, "host": "here"},
        {"kind": "sample", "at_s": 5.0, "gpus": {"GPU-a": point(0.9, 100.0)}},
        {"kind": "sample", "at_s": 10.0, "gpus": {"GPU-a": point(0.0, 150.0), "GPU-b": {}}},
        {"kind": "sample", "gpus": 3},
    ]
    lines = "".join(json.dumps(line) + "\n" for line in points)
    (path / "samples.jsonl").write_text(lines + '{"kind": "sam')
    found = glance_training(path)
    assert found.energy_joules == 150.0
    assert {uuid: str(at) for uuid, at in found.gpus_active_at.items()} == {
        "GPU-a": "2026-11-22 12:00:05+00:00"
    }


def stepping(*steps, every_s=5.0):
    """Return samples at equal times, each with the steps that were done then."""
    lines = [{"kind": "session", "at_s": 0.0, "host": "here"}]
    lines += [
        {"kind": "sample", "at_s": every_s * (index + 1), "steps": done}
        for index, done in enumerate(steps)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_in_its_first_epoch_steps_are_signs_of_life(make):
    path = make(sessions=[{"started_at": "2026-11-22T12:00:01Z", "pid": 40}])
    (path / "samples.jsonl").write_text(stepping(0, 10, 20, 30, 30, 30, 30))
    found = glance_training(path)
    assert str(found.active_at) == "2026-11-22 12:00:20+00:00"
    hang = find_hang(121.0, found.step_s, [Rank(pid=40, cpu_ratio=0.0)])
    assert hang is not None
    assert find_hang(119.0, found.step_s, [Rank(pid=40, cpu_ratio=0.0)]) is None, "saves, perhaps"


def test_before_its_first_step_nothing_is_usual(make):
    path = make()
    (path / "samples.jsonl").write_text(stepping(None, None, 1))
    assert glance_training(path).step_s is None


def test_once_epochs_tell_it_they_are_what_is_usual(make):
    path = make([row(1, seconds=600.0), row(2, seconds=600.0)])
    (path / "samples.jsonl").write_text(stepping(1, 2, 3, 4))
    assert glance_training(path).step_s == 600.0


def point(ratio, joules):
    return {"utilization_ratio": ratio, "energy_joules": joules}


def test_its_gpus_are_those_that_its_last_session_samples_here(make):
    path = make()
    gpus = [{"uuid": "GPU-a"}, {"uuid": "GPU-b"}, {"index": 2}]
    for host, expected in ((os.uname().nodename, ("GPU-a", "GPU-b")), ("other", ("GPU-a",))):
        session = {"kind": "session", "at_s": 0.0, "host": host, "gpus": gpus}
        (path / "samples.jsonl").write_text(json.dumps(session) + "\n")
        assert glance_training(path).uuids == expected


def test_the_energy_that_is_recorded_stands(make):
    assert glance_training(make([row(1)], energy_joules=42.0)).energy_joules == 42.0
