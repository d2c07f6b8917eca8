"""The feed of this machine."""

import shutil
import subprocess
import types

import pytest

from forked import start_python
from tarmac.monitor import LocalFeed, WatchOptions
from tarmac.monitor.containers import ContainerNames, read_names


def test_snapshots_come_at_their_time_the_first_at_once(tmp_path, monkeypatch):
    slept = []
    # Of this module alone: what else sleeps in this process is not meant.
    clock = types.SimpleNamespace(sleep=slept.append, monotonic=lambda: 100.0)
    monkeypatch.setattr("tarmac.monitor.feed.time", clock)
    with LocalFeed(WatchOptions(output=tmp_path, interval_s=2.0)) as feed:
        first = feed.next()
        # The moment that shares of the processor are of.
        assert sum(slept) < 0.1
        slept.clear()
        feed.next()
        feed.next()
    assert slept == [2.0, 4.0]
    assert len(first.hosts) == 1
    feed.close()


def test_a_real_training_is_seen_from_its_beginning_to_its_end(tmp_path):
    pytest.importorskip("torch")
    command = ["-m", "tarmac", "train", "digits-mlp"]
    command += ["--epochs", "100000", "--output", str(tmp_path), "--devices", "cpu"]
    training = start_python(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with LocalFeed(WatchOptions(output=tmp_path, interval_s=0.1)) as feed:

        def wait_for(condition):
            while True:
                works = feed.next().hosts[0].work
                if len(works) == 1 and condition(works[0]):
                    return works[0]

        try:
            work = wait_for(lambda work: work.epoch and work.checkpoint_age_s is not None)
            assert (work.state, work.workload, work.epochs) == ("busy", "digits-mlp", 100000)
            assert work.pids == (training.pid,)
            assert work.samples_per_s is not None
            assert work.loss is not None
        finally:
            training.terminate()
            training.wait()
        work = wait_for(lambda work: work.state == "ended")
    assert work.status == "interrupted"


def test_names_of_containers_are_asked_for_beside_the_looks_and_only_for_new_ones():
    asked, clock = [], [0.0]

    def read():
        asked.append(clock[0])
        return {"ab": "train"}

    names = ContainerNames(read, lambda: clock[0])
    assert names.look([]) == {}
    assert names.look(["ab"]) in ({}, {"ab": "train"})
    names.wait()
    assert names.look(["ab"]) == {"ab": "train"}
    names.look(["cd"])
    clock[0] = 15.0
    names.look(["ab", "cd"])
    names.wait()
    names.look(["ab"])
    assert asked == [0.0, 15.0]


def test_engines_that_fail_or_are_not_there_name_nothing(tmp_path, monkeypatch):
    sh = shutil.which("sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_names() == {}
    for name, script in (("docker", "exit 1"), ("podman", "echo abc one,two; echo junk")):
        (tmp_path / name).write_text(f"#!{sh}\n{script}\n")
        (tmp_path / name).chmod(0o755)
    assert read_names() == {"abc": "one", "junk": ""}
