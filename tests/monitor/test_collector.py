"""Looks at a machine: real processes and directories, and GPUs that say what a test wants."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from monitor_values import gpu, process

from tarmac.checks import last_check_file
from tarmac.files import append_lines, write_json
from tarmac.machine import LiveProcess, XidSeen, read_module_version
from tarmac.monitor.collector import Watcher
from tarmac.monitor.options import WatchOptions
from tarmac.runs import now

# Holds a run's lock as a training does, and ends when its input does.
HOLDER = (
    "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX);"
    "print('held', flush=True); sys.stdin.read()"
)


class Cards:
    """GPUs that are what was last said of them."""

    def __init__(self, *gpus):
        self.gpus = gpus
        self.xids = ()
        self.is_closed = False
        self.detailed = []

    def read(self, *, details=False):
        self.detailed.append(details)
        return self.gpus

    def new_xids(self):
        xids, self.xids = self.xids, ()
        return xids

    def close(self):
        self.is_closed = True


@pytest.fixture
def start():
    """Start a process that holds a run's lock; they end with the test."""
    started = []

    def start(path, **variables):
        command = [sys.executable, "-c", HOLDER, str(path / ".lock")]
        one = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | variables,
            cwd=path,
        )
        started.append(one)
        assert one.stdout.readline() == b"held\n"
        return one

    yield start
    for one in started:
        stop(one)


def stop(process):
    process.stdin.close()
    process.wait()
    process.stdout.close()


def make_run(output, name="run", pid=1, epoch=3, uuid=None, **changes):
    path = output / name
    path.mkdir(parents=True)
    record = {
        "schema_version": 3,
        "workload": "digits-mlp",
        "status": "running",
        "created_at": now().isoformat(),
        "configuration": {"epochs": 10},
        "device": {"uuid": uuid},
        "sessions": [{"started_at": now().isoformat(), "pid": pid}],
    }
    write_json(path / "run.json", record | changes)
    rows = [{"epoch": n + 1, "loss": 1 / (n + 1), "seconds": 2.0} for n in range(epoch)]
    append_lines(path / "metrics.jsonl", rows)
    return path


@pytest.fixture
def watch(tmp_path):
    watchers = []

    def watch(cards, output=None, **options):
        watcher = Watcher(WatchOptions(output=output or tmp_path / "runs", **options), gpus=cards)
        watchers.append(watcher)
        return watcher

    yield watch
    for watcher in watchers:
        watcher.close()


def test_a_training_is_joined_to_the_gpu_that_its_process_is_on(tmp_path, start, watch):
    path = make_run(tmp_path / "runs")
    process = start(path)
    resting = gpu(1, utilization_ratio=0.0, power_watts=90.0, memory_used_bytes=0)
    found = watch(Cards(gpu(0, process.pid), resting)).look()
    (work,) = found.work
    assert (work.id, work.state, work.status) == ("run", "busy", "running")
    assert (work.gpu_uuids, work.joined_by, work.pids) == (
        ("GPU-0",),
        "processes",
        (process.pid,),
    )
    assert (work.epoch, work.epochs, work.is_own) == (3, 10, True)
    (row,) = found.processes
    assert (row.work, row.pid) == ("run", process.pid)
    assert row.command is not None
    assert row.command.startswith(sys.executable)
    assert found.gpu_states == {"GPU-0": "busy", "GPU-1": "free"}


def test_a_run_elsewhere_is_seen_while_a_process_works_on_it(tmp_path, start, monkeypatch):
    monkeypatch.setenv("TARMAC_RUNS", str(tmp_path / "runs"))
    path = make_run(tmp_path / "other", "run-elsewhere")
    process = start(path)
    watcher = Watcher(WatchOptions(), gpus=Cards(gpu(0, process.pid)))

    def status():
        # Others may work on this machine while the test runs.
        return [one.status for one in watcher.look().work if one.path == str(path)]

    assert status() == ["running"]
    stop(process)
    assert status() == ["interrupted"]


def test_a_run_elsewhere_is_seen_that_was_locked_before_it_was_written(
    tmp_path, start, monkeypatch
):
    monkeypatch.setenv("TARMAC_RUNS", str(tmp_path / "runs"))
    early, late = tmp_path / "other" / "run", tmp_path / "later"
    early.mkdir(parents=True)
    start(early)
    watcher = Watcher(WatchOptions(), gpus=Cards())

    def is_seen():
        return str(early) in {one.path for one in watcher.look().work}

    assert not is_seen()
    (make_run(late) / "run.json").rename(early / "run.json")
    assert is_seen()


def test_where_a_directory_was_asked_for_no_other_is_looked_at(tmp_path, start, watch):
    process = start(make_run(tmp_path / "other"))
    assert watch(Cards(gpu(0, process.pid))).look().work == ()


def test_a_training_below_a_jobs_directory_is_seen(tmp_path, start, watch):
    process = start(make_run(tmp_path / "runs" / "job" / "tasks" / "0" / "work" / "runs"))
    (work,) = watch(Cards(gpu(0, process.pid))).look().work
    assert (work.id, work.gpu_uuids) == ("run", ("GPU-0",))


def test_what_links_carry_is_read_by_all_looks_but_the_first(watch):
    cards = Cards(gpu(0))
    watcher = watch(cards)
    for _ in range(3):
        watcher.look()
    assert cards.detailed == [False, True, True]


def test_others_processes_are_user_and_command(watch):
    found = watch(Cards(gpu(0, os.getppid()))).look()
    (row,) = found.processes
    assert row.work is None
    assert row.user is not None
    assert row.command


def test_a_held_gpu_that_does_nothing_is_idle_after_the_time_that_was_asked_for(
    tmp_path, start, watch
):
    process = start(make_run(tmp_path / "runs"))
    still = gpu(0, process.pid, utilization_ratio=0.0, power_watts=90.0)
    found = watch(Cards(still), idle_after_s=0.0).look()
    assert found.gpu_states == {"GPU-0": "held"}
    assert found.work[0].state == "idle"
    assert found.work[0].idle_s == 0.0
    assert watch(Cards(still), idle_after_s=600.0).look().work[0].state == "busy"


def test_a_training_before_its_first_epoch_warms_up(tmp_path, start, watch):
    process = start(make_run(tmp_path / "runs", epoch=0))
    still = gpu(0, process.pid, utilization_ratio=0.0, power_watts=90.0)
    (work,) = watch(Cards(still), idle_after_s=1e-9).look().work
    assert (work.state, work.epoch) == ("warming", 0)


def test_a_task_that_was_given_a_gpu_and_is_not_there_is_said(tmp_path, start, watch):
    job = tmp_path / "runs" / "job"
    task = job / "tasks" / "000000-train"
    task.mkdir(parents=True)
    # What the runner starts has its mark; here the runner is this very process.
    variables = {
        "TARMAC_RUN": "a1b2",
        "TARMAC_TASK_INDEX": "0",
        "TARMAC_ATTEMPT": "1",
        "CUDA_VISIBLE_DEVICES": "GPU-1",
    }
    process = start(task, **variables)
    write_json(job / "job-run.json", {"num_tasks": 1, "executor": "local"})
    write_json(job / "runner.json", {"pid": os.getpid(), "host": os.uname().nodename})
    append_lines(
        job / "journal.jsonl", [{"event": "started", "task": 0, "name": "train", "attempt": 1}]
    )
    still = {"utilization_ratio": 0.0, "power_watts": 90.0, "memory_used_bytes": 0}
    cards = Cards(gpu(0, **still), gpu(1, **still))
    with (job / ".lock").open("w") as lock:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
        found = watch(cards).look()
    work = {one.id: one for one in found.work}
    assert work["job/train"].pids == (process.pid,)
    assert work["job/train"].gpu_uuids == ("GPU-1",)
    assert work["job/train"].joined_by == "given"
    assert work["job/train"].note == "no process of it is on GPU 1"
    assert found.gpu_states == {"GPU-0": "free", "GPU-1": "held"}


def test_where_processes_have_no_numbers_a_run_is_joined_by_its_report(tmp_path, start, watch):
    start(make_run(tmp_path / "runs", uuid="GPU-0"))
    unseen = LiveProcess(None, 4242, memory_bytes=2**30)
    found = watch(Cards(gpu(0, unseen))).look()
    assert found.work[0].joined_by == "report"
    assert (found.processes[0].pid, found.processes[0].work) == (None, "run")


def test_errors_that_the_driver_tells_of_stay_and_make_a_gpu_bad(tmp_path, start, watch):
    process = start(make_run(tmp_path / "runs"))
    cards = Cards(gpu(0, process.pid))
    watcher = watch(cards)
    assert watcher.look().findings == ()
    cards.xids = (XidSeen(79, "GPU-0", now()),)
    for _ in range(2):
        found = watcher.look()
        assert [(one.code, one.gpu_uuid) for one in found.findings] == [("xid", "GPU-0")]
        assert found.gpu_states == {"GPU-0": "bad"}
        assert "Xid 79" in found.work[0].slow[0]


def write_check(path, code, minute, boot_id=None, driver=None):
    boot_id = boot_id or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    finding = {"code": code, "level": "warning", "title": "errors", "where": ["GPU 0"]}
    report = {
        "checked_at": f"2026-11-22T12:{minute}:00Z",
        "findings": [finding],
        "inventory": {
            "host": {"boot_id": boot_id},
            "driver": {"module_version": driver or read_module_version()},
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, report)


@pytest.fixture
def last_check():
    """Where this user's last check is kept, which is a place of this test alone."""
    return last_check_file()


def test_findings_of_the_check_before_a_run_are_shown(tmp_path, start, watch, last_check):
    path = make_run(tmp_path / "runs")
    start(path)
    write_check(path / "check.json", "ecc", 10)
    watcher = watch(Cards(gpu(0)))
    (found,) = watcher.look().findings
    assert (found.code, found.gpu_uuid) == ("ecc", "GPU-0")
    write_check(last_check, "newer", 20)
    assert [one.code for one in watcher.look().findings] == ["newer"]
    write_check(path / "check.json", "newest", 30)
    assert [one.code for one in watcher.look().findings] == ["newest"]


@pytest.mark.parametrize("other", [{"boot_id": "another"}, {"driver": "1.2"}])
def test_a_check_of_another_boot_or_driver_says_nothing(watch, last_check, other):
    write_check(last_check, "old", 10, **other)
    assert watch(Cards(gpu(0))).look().findings == ()


@pytest.mark.parametrize("content", ["", "[]", '{"checked_at": 3, "findings": [{}]}'])
def test_a_last_check_that_is_none_says_nothing(watch, last_check, content):
    last_check.parent.mkdir(parents=True)
    last_check.write_text(content)
    assert watch(Cards(gpu(0))).look().findings == ()


def test_work_that_has_ended_stays_for_a_while_as_it_ended(tmp_path, start, watch):
    path = make_run(tmp_path / "runs")
    process = start(path)
    watcher = watch(Cards(gpu(0, process.pid)))
    assert watcher.look().work[0].state == "busy"
    record = json.loads((path / "run.json").read_text())
    write_json(path / "run.json", record | {"status": "failed", "error": "out of memory"})
    stop(process)
    (work,) = watcher.look().work
    assert (work.state, work.status, work.note) == ("ended", "failed", "out of memory")
    assert (work.gpu_uuids, work.pids) == ((), ())


class InContainer:
    """Processes of which one is in a container."""

    def look(self, pids):
        return {50: process(50, container="ab" * 32)}

    def lock_holders(self):
        return {}


def test_one_look_knows_what_containers_are_called(tmp_path, monkeypatch):
    sh = shutil.which("sh")
    (tmp_path / "docker").write_text(f"#!{sh}\necho {'ab' * 32} train\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    # However busy the machine is.
    monkeypatch.setattr("tarmac.monitor.collector._FIRST_NAMES_S", 60.0)
    options = WatchOptions(output=tmp_path)
    watcher = Watcher(options, gpus=Cards(gpu(0, 50)), processes=InContainer())
    (row,) = watcher.look().processes
    assert row.container == "train"


def test_of_tasks_that_have_ended_the_last_ones_stay_and_none_that_only_waited(
    tmp_path, start, watch
):
    job = tmp_path / "runs" / "job"
    job.mkdir(parents=True)
    write_json(
        job / "job-run.json",
        {"num_tasks": 100, "executor": "local", "created_at": now().isoformat()},
    )
    tasks = [{"task": n, "name": f"t{n}", "attempt": 1, "event": "started"} for n in range(60)]
    tasks += [{"task": 60, "name": "t60", "attempt": 1, "event": "queued"}]
    append_lines(job / "journal.jsonl", tasks)
    start(job)
    watcher = watch(Cards())
    assert len(watcher.look().work) == 62
    ended = {"event": "ended", "outcome": "succeeded", "seconds": 1.0, "reason": ""}
    append_lines(job / "journal.jsonl", [task | ended for task in tasks])
    found = watcher.look().work
    assert [work.state for work in found] == ["busy"] + ["ended"] * 32
    assert found[0].done == 61
    assert "job/t60" not in {work.id for work in found}


def test_one_look_knows_the_share_of_the_processor_that_is_in_use(watch):
    host = watch(Cards()).look().host
    assert host.cpu_ratio is not None
    assert 0 <= host.cpu_ratio <= 1
    assert host.throttled_ratio is None


def test_ranks_are_rows_with_their_gpus(tmp_path, start, watch):
    path = make_run(tmp_path / "runs")
    meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "WORLD_SIZE": "2"}
    other = tmp_path / "rank1"
    other.mkdir()
    ranks = [start(path, RANK="0", **meeting), start(other, RANK="1", **meeting)]
    found = watch(Cards(*(gpu(n, one.pid) for n, one in enumerate(ranks)))).look()
    (work,) = found.work
    assert [(row["rank"], row["gpu_uuid"]) for row in work.ranks] == [(0, "GPU-0"), (1, "GPU-1")]
    assert work.gpu_uuids == ("GPU-0", "GPU-1")


def test_a_gpu_that_cannot_be_read_is_bad_and_the_others_go_on(watch):
    lost = dataclasses.replace(gpu(0), error="GPU is lost", utilization_ratio=None)
    assert watch(Cards(lost, gpu(1))).look().gpu_states == {"GPU-0": "bad", "GPU-1": "busy"}


@pytest.mark.parametrize("content", ["", '{"status": "runn', '{"schema_version": 99}'])
def test_a_run_that_is_being_written_is_no_problem(tmp_path, start, watch, content):
    path = make_run(tmp_path / "runs")
    (path / "run.json").write_text(content)
    (path / "metrics.jsonl").write_text('{"epoch": 1, "loss"')
    start(path)
    assert watch(Cards(gpu(0))).look().gpu_states == {"GPU-0": "busy"}


def test_what_is_taken_of_a_card_in_slices_is_the_slices(watch):
    whole = gpu(0, utilization_ratio=None)
    part = gpu(0, 7, uuid="MIG-1", parent_uuid="GPU-0", utilization_ratio=None)
    assert watch(Cards(whole, part)).look().gpu_states == {"GPU-0": "free", "MIG-1": "busy"}


def test_a_machine_without_a_gpu_says_why(tmp_path, start):
    start(make_run(tmp_path / "runs"))
    watcher = Watcher(WatchOptions(output=tmp_path / "runs"))
    found = watcher.look()
    watcher.close()
    watcher.close()
    assert [work.id for work in found.work] == ["run"]
    assert bool(found.gpus) != bool(found.no_gpu_reason)
