"""Tasks of a run where an engine queues attempts, which outlive the process that asked for them."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import textwrap
import threading

import pytest
from click.testing import CliRunner

from engines import GRANT, Engine, stays, succeeds
from tarmac.cli.commands import jobs as job_commands
from tarmac.cli.commands.run import command as run_command
from tarmac.errors import RequestError, TarmacError
from tarmac.files import Holder, Lease, LeaseWatch, lease_file, read_lease
from tarmac.jobs import (
    JOB,
    Began,
    Finished,
    Handle,
    JobFailed,
    Requeued,
    Silent,
    Waiting,
    create_run,
    find_run,
    parse_job,
    plan_tasks,
    read_journal,
    read_status,
    run_tasks,
    work_on,
)
from tarmac.jobs.journal import Journal
from tarmac.jobs.retries import disturbed_pause_s
from tarmac.node import AttemptRecord, attempt_file
from tarmac.runs import Catalogue
from waiting import wait_until


class Watcher(Silent):
    def __init__(self) -> None:
        self.ends: dict[str, object] = {}
        self.pauses: list[float] = []
        self.events: list[str] = []

    def told(self, event) -> None:
        self.events.append(type(event).__name__)

    def retrying(self, task, reason, delay_s) -> None:
        self.pauses.append(delay_s)

    def ended(self, ended) -> None:
        self.ends[ended.task.name] = ended


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Let attempts follow disturbances at once."""
    monkeypatch.setattr("tarmac.jobs.retries._DISTURBED_PAUSE_S", 0.0)


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def run(tmp_path, engine):
    """Return a function that works on a run of a job, made at its first call."""

    class Run:
        path = None

        def __call__(self, text="", **options):
            if self.path is None:
                job = parse_job(textwrap.dedent(text))
                self.tasks = [*plan_tasks(job, tmp_path)]
                made = create_run(job, tmp_path, self.tasks, tmp_path / "runs", executor="queueing")
                self.path = made.path
            self.watcher = Watcher()
            executor = engine.open()
            self.counts = run_tasks(self.tasks, self.path, executor, self.watcher, **options)
            executor.close()
            return self.watcher

        def events(self, *keys):
            lines = read_journal(self.path / "journal.jsonl")
            return [tuple(line.get(key) for key in ("event", *keys)) for line in lines]

    return Run()


def disturbed_until(number):
    """Return what becomes of an attempt: its node fails, until the one of some number."""

    def life(attempt):
        if attempt.number >= number:
            yield from succeeds(attempt)
            return
        yield Began(attempt, GRANT, "n1")
        yield Finished(attempt, "failed", "node n1 failed", cause="node", host="n1")

    return life


def ends(outcome, cause, **values):
    def life(attempt):
        yield Finished(attempt, outcome, "so it was", cause=cause, **values)

    return life


def test_all_that_may_run_is_queued_at_once_and_each_step_is_on_record(run, engine):
    run("{name: x, command: a, sweep: {repeat: 300}}")
    assert run.counts == {"succeeded": 300}
    assert engine.asked == [300]
    assert run.events("place", "host")[:1] == [("queued", "80_0", None)]
    steps = [event for event, index in run.events("task") if index == 7]
    assert steps == ["queued", "started", "ended"]
    assert run.watcher.events == ["Queued"] * 300 + ["Began"] * 300


def test_how_many_run_at_once_is_the_engines_business(run, engine):
    run("{name: x, command: a, sweep: {repeat: 9}}", concurrency=2)
    assert engine.asked == [9]


def test_what_an_engine_has_no_room_for_is_asked_for_again_in_its_order(run, engine):
    engine.room = 4
    run("{name: x, command: a, sweep: {repeat: 10}}")
    assert run.counts == {"succeeded": 10}
    assert [index for event, index in run.events("task") if event == "queued"] == [*range(10)]


def test_a_disturbance_spends_no_retry(run, engine):
    engine.life = disturbed_until(4)
    run("{name: x, command: a}")
    assert run.counts == {"succeeded": 1}
    assert run.watcher.ends["x"].attempts == 4
    retried = [line for line in run.events("attempt", "cause", "host") if line[0] == "retried"]
    assert retried == [("retried", number, "node", "n1") for number in (1, 2, 3)]


def test_retries_are_spent_by_own_failures_alone_also_between_disturbances(run, engine):
    def life(attempt):
        cause = "preempted" if attempt.number in (1, 3) else "exit"
        yield Finished(attempt, "failed", "so it was", 3 if cause == "exit" else None, cause=cause)

    engine.life = life
    run("{name: x, command: a, retries: {count: 1, backoff: 0}}")
    assert run.counts == {"failed": 1}
    assert run.watcher.ends["x"].attempts == 4
    assert run.watcher.ends["x"].cause == "exit"


def test_a_task_that_is_disturbed_for_ever_fails_at_last(run, engine):
    engine.life = disturbed_until(100)
    run("{name: x, command: a}")
    end = run.watcher.ends["x"]
    assert (end.outcome, end.attempts, end.cause) == ("failed", 11, "node")
    assert end.reason == "node n1 failed; disturbed 11 times"


def test_pauses_after_disturbances_double_up_to_ten_minutes(monkeypatch):
    monkeypatch.undo()
    pauses = [disturbed_pause_s(count) for count in range(1, 8)]
    assert pauses == [30, 60, 120, 240, 480, 600, 600]


@pytest.mark.parametrize(("outcome", "cause"), [("failed", "cancelled"), ("interrupted", "stop")])
def test_what_somebody_wanted_is_not_tried_again(run, engine, outcome, cause):
    engine.life = ends(outcome, cause)
    run("{name: x, command: a, retries: 3}")
    assert run.counts == {outcome: 1}
    assert run.watcher.ends["x"].attempts == 1


def test_what_is_left_to_the_engine_is_taken_over_by_the_next_session(run, engine):
    engine.life = stays
    run("{name: x, command: a, sweep: {repeat: 3}}", detach=lambda: len(engine.left) == 3)
    assert (run.counts, len(engine.left), engine.ended) == ({}, 3, [])
    engine.life = succeeds
    run()
    assert run.counts == {"succeeded": 3}
    assert engine.asked == [3], "something was queued a second time"


def test_what_was_queued_before_it_was_on_record_is_taken_over_too(run, engine):
    engine.life = stays
    run("{name: x, command: a, sweep: {repeat: 3}}", detach=lambda: len(engine.left) == 3)
    (run.path / "journal.jsonl").write_text("")
    engine.life = succeeds
    run()
    assert run.counts == {"succeeded": 3}
    assert engine.asked == [3]
    assert run.events()[0] == ("queued",)


def test_an_attempt_whose_end_is_on_record_is_not_waited_for_again(run, engine):
    engine.life = stays
    run("{name: x, command: a, retries: 1}", detach=lambda: len(engine.left) == 1)
    with Journal(run.path / "journal.jsonl") as journal:
        journal.write("retried", task=0, name="x", attempt=1, reason="so it was", cause="exit")
    engine.life = succeeds
    run()
    assert run.counts == {"succeeded": 1}
    assert run.watcher.ends["x"].attempts == 2
    assert engine.taken == [(0, 1), (0, 2)]


def test_a_resumed_task_gets_a_number_that_no_attempt_had_and_all_its_retries(run, engine):
    engine.life = ends("failed", "exit", exit_code=1)
    run("{name: x, command: a, retries: {count: 1, backoff: 0}}")
    assert run.watcher.ends["x"].attempts == 2
    run()
    assert run.watcher.ends["x"].attempts == 4
    assert [number for _, number in run.events("attempt") if number] == [1, 1, 2, 3, 3, 4]


def test_retries_that_an_attached_attempt_has_spent_are_not_given_back(run, engine):
    engine.life = lambda attempt: (
        stays(attempt) if attempt.number > 1 else ends("failed", "exit", exit_code=1)(attempt)
    )
    text = "{name: x, command: a, retries: {count: 1, backoff: 0}}"
    run(text, detach=lambda: (0, 2) in engine.left)
    engine.life = ends("failed", "exit", exit_code=1)
    run()
    assert run.watcher.ends["x"].attempts == 2


def test_the_last_task_is_taken_over_without_being_done_twice(run, engine):
    engine.life = lambda attempt: (stays if attempt.task.is_last else succeeds)(attempt)
    text = """
        name: x
        tasks: [{name: a, command: a}]
        after_all: {name: last, command: b}
        """
    run(text, detach=lambda: (1, 1) in engine.left)
    engine.life = succeeds
    run()
    assert run.counts == {"succeeded": 2}
    assert engine.asked == [1, 1]


class Killed(BaseException):
    """Stands for SIGKILL: nothing is done any more, whatever waits to be done at an end."""


@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
def test_each_task_is_done_once_wherever_the_runner_is_killed(run, engine, monkeypatch, is_written):
    write_all = Journal.write_all
    left = 0

    def write_and_die(journal, events):
        nonlocal left
        left -= bool(events)
        if left or is_written:
            write_all(journal, events)
        if not left:
            raise Killed

    text = "{name: x, command: a, sweep: {repeat: 4}}"
    for point in range(1, 4):
        left = point
        engine.left.clear()
        engine.taken.clear()
        run.path = None
        monkeypatch.setattr(Journal, "write_all", write_and_die)
        with pytest.raises(Killed):
            run(text)
        monkeypatch.setattr(Journal, "write_all", write_all)
        run()
        assert run.counts == {"succeeded": 4}
        assert engine.taken == [(0, 1), (1, 1), (2, 1), (3, 1)], f"killed at line {point}"
        ends = [index for event, index in run.events("task") if event == "ended"]
        assert sorted(ends) == [0, 1, 2, 3]


def test_a_stop_ends_what_an_earlier_session_left(run, engine):
    engine.life = stays
    run("{name: x, command: a, sweep: {repeat: 3}}", detach=lambda: len(engine.left) == 3)
    run(stop=lambda: True)
    assert run.counts == {"interrupted": 3}
    assert engine.ended == [(0, 1), (1, 1), (2, 1)]


def test_a_stop_ends_a_last_task_too_whose_others_are_to_be_done_again(run, engine):
    engine.life = lambda attempt: (stays if attempt.task.is_last else succeeds)(attempt)
    text = """
        name: x
        tasks: [{name: a, command: a}]
        after_all: {name: last, command: b}
        """
    run(text, detach=lambda: (1, 1) in engine.left)
    journal = run.path / "journal.jsonl"
    journal.write_text("".join(x for x in journal.open() if '"event":"ended"' not in x))
    run(stop=lambda: True)
    assert engine.ended == [(1, 1)]
    assert run.counts == {"interrupted": 1}


def status_of(run):
    return read_status(run.path)


def test_the_status_says_what_waits_and_for_what(run, engine):
    seen = []

    def life(attempt):
        yield Waiting(attempt, "waits for its turn (Priority)")
        if attempt.task.index:
            yield Began(attempt, GRANT, "n2")
        if attempt.task.index == 2:
            yield Requeued(attempt, "preempted", "preempted by another job")

    def look():
        seen.append([(t.state, t.reason, t.host) for t in status_of(run).tasks])
        return len(seen) > 3

    engine.life = life
    run("{name: x, command: a, sweep: {repeat: 3}}", detach=look)
    assert seen[-1] == [
        ("queued", "waits for its turn (Priority)", ""),
        ("running", "", "n2"),
        ("queued", "preempted by another job", ""),
    ]


def test_a_run_without_a_runner_is_detached_until_its_tasks_have_ended(run, engine):
    engine.life = stays
    run("{name: x, command: a, sweep: {repeat: 2}}", detach=lambda: len(engine.left) == 2)
    status = status_of(run)
    assert (status.state, status.is_active) == ("detached", True)
    with pytest.raises(TimeoutError, match="is still running"):
        Handle(run.path).result(timeout=0)
    assert [task.state for task in status.tasks] == ["running", "running"]
    for task, outcome in zip(status.tasks, ("succeeded", "failed"), strict=True):
        task.directory.mkdir(parents=True)
        record = AttemptRecord("nonce", "ended", outcome=outcome, exit_code=0, host="n2")
        attempt_file(task.directory, 1).write_bytes(record.to_bytes())
    status = status_of(run)
    assert status.state == "failed"
    assert [task.state for task in status.tasks] == ["succeeded", "failed"]
    assert {task.host for task in status.tasks} == {"n2"}
    assert isinstance(Handle(run.path).exception(timeout=0), JobFailed)


def test_what_the_engine_has_lost_is_tried_anew_or_counts_as_interrupted(run, engine):
    engine.life = stays
    run("{name: x, command: a, sweep: {repeat: 2}}", detach=lambda: len(engine.left) == 2)
    engine.left.clear()
    run(stop=lambda: True)
    assert status_of(run).state == "interrupted"
    engine.life = succeeds
    run()
    assert run.counts == {"succeeded": 2}
    assert {end.attempts for end in run.watcher.ends.values()} == {2}


@pytest.fixture
def lease_elsewhere(monkeypatch):
    """Return a function that leaves a run the lease of a runner of another machine."""
    monkeypatch.setattr("tarmac.files.hosts_locks.is_network", lambda _: True)

    def leave(path, beat_s):
        holder = Holder("elsewhere", "another kernel", 1, 1, "nonce", 7, beat_s)
        lease_file(path / ".lock").write_text(json.dumps(dataclasses.asdict(holder)))
        noted = {"pid": 1, "start_ticks": 1, "boot_id": "b", "host": "elsewhere"}
        (path / "runner.json").write_text(json.dumps(noted))

    return leave


def test_a_runner_elsewhere_whose_lease_stands_still_is_gone(detached, engine, lease_elsewhere):
    lease_elsewhere(detached.path, beat_s=0.02)
    watch = LeaseWatch()
    status = read_status(detached.path, watch)
    assert (status.state, status.elsewhere.host) == ("running", "elsewhere")
    wait_until(lambda: read_status(detached.path, watch).state != "running", "the lease's end")
    status = read_status(detached.path, watch)
    assert (status.state, status.elsewhere) == ("detached", None)
    # Whoever goes on with the run takes the lease over.
    engine.life = succeeds
    work_on(find_run(str(detached.path)), Silent())
    assert status_of(detached).state == "succeeded"


def test_ps_says_where_a_runner_is_and_for_how_long_it_has_been_silent(
    detached, lease_elsewhere, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    lease_elsewhere(detached.path, beat_s=60)
    runs = detached.path.parent
    assert "running on elsewhere  " in invoke(job_commands.ps, "--output", runs).output
    os.utime(lease_file(detached.path / ".lock"), (1, 1))
    printed = invoke(job_commands.ps, "--output", runs).output
    assert re.search(r"running on elsewhere, last heartbeat \d+ s ago  ", printed), printed
    (row,) = json.loads(invoke(job_commands.ps, "--json", "--output", runs).output)
    assert row["runner_host"] == "elsewhere"
    assert row["runner_silent_s"] > 60


def test_a_runner_whose_lease_was_taken_over_leaves_all_to_who_has_it(
    detached, engine, monkeypatch
):
    monkeypatch.setattr("tarmac.jobs.kind.open_lock", lambda path: Lease(path, beat_s=0.02))
    asked_before = [*engine.asked]
    path = detached.path / ".lock"

    def take_over():
        mine = read_lease(path)
        noted = {"pid": 1, "start_ticks": 1, "boot_id": "b", "host": "elsewhere"}
        if mine.host != "elsewhere":
            other = dataclasses.replace(mine, host="elsewhere", nonce="other")
            successor = path.with_name(f"{path.name}.{mine.nonce}.after")
            successor.write_text(json.dumps(dataclasses.asdict(other)))
            (detached.path / "runner.json").write_text(json.dumps(noted))
        return False

    with pytest.raises(TarmacError, match="another process has taken over x-"):
        work_on(find_run(str(detached.path)), Silent(), stop=take_over)
    assert (len(engine.left), engine.ended, engine.asked) == (2, [], asked_before)
    assert (detached.path / "runner.json").exists()


def test_a_run_that_has_ended_is_not_running_by_a_lease_that_a_killed_runner_left(
    run, engine, lease_elsewhere
):
    engine.life = succeeds
    run("{name: x, command: a}")
    lease_elsewhere(run.path, beat_s=60)
    assert read_status(run.path).state == "running"
    os.utime(lease_file(run.path / ".lock"), (1, 1))
    assert read_status(run.path).state == "succeeded"


@pytest.mark.parametrize("is_network", [False, True])
def test_nobody_goes_on_with_a_run_while_a_lease_elsewhere_beats(
    detached, lease_elsewhere, monkeypatch, is_network
):
    monkeypatch.setattr("tarmac.files.hosts_locks.is_network", lambda _: is_network)
    path = lease_file(detached.path / ".lock")
    lease_elsewhere(detached.path, beat_s=60)
    told = threading.Event()

    def beat():
        while not told.is_set():
            holder = json.loads(path.read_text())
            draft = path.with_name("draft")
            draft.write_text(json.dumps(holder | {"beat": holder["beat"] + 1}))
            draft.replace(path)

    beating = threading.Thread(target=beat)
    beating.start()
    try:
        with pytest.raises(RequestError, match="another process works on x-"):
            work_on(find_run(str(detached.path)), Silent())
    finally:
        told.set()
        beating.join()


@pytest.fixture
def installed(engine, tmp_path, monkeypatch):
    """Install a package that provides an executor of the engine."""
    site = tmp_path / "site"
    (site / "queueing-1.dist-info").mkdir(parents=True)
    (site / "queueing-1.dist-info/METADATA").write_text("Name: queueing\nVersion: 1\n")
    (site / "queueing-1.dist-info/entry_points.txt").write_text(
        "[tarmac.executors]\nqueueing = engines:KIND\n"
    )
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr("engines.KIND", engine.kind("queueing"), raising=False)


@pytest.fixture
def detached(run, engine, installed):
    """Return a run of an installed executor whose runner has gone, and whose tasks go on."""
    engine.life = stays
    run("{name: x, command: a, sweep: {repeat: 2}}", detach=lambda: len(engine.left) == 2)
    return run


def test_a_run_without_a_runner_is_cancelled_with_what_the_engine_has(detached, engine):
    handle = Handle(detached.path)
    assert handle.running()
    assert handle.cancel()
    assert engine.ended == [(0, 1), (1, 1)]
    assert handle.cancelled()
    assert handle.cancel() is False


def test_a_run_is_not_removed_while_an_engine_has_tasks_of_it(detached):
    catalogue = Catalogue((JOB,), detached.path.parent)
    found = catalogue.find(detached.path.name)
    with pytest.raises(RequestError, match=r"x-.* has 2 tasks still queued or running"):
        catalogue.remove(found)
    assert detached.path.is_dir()


def test_a_run_does_not_go_on_elsewhere_while_an_engine_has_tasks_of_it(detached):
    found = dataclasses.replace(find_run(str(detached.path)), executor="local")
    with pytest.raises(RequestError, match=r"x-.* has 2 tasks still on queueing"):
        work_on(found, Silent())
    Handle(detached.path).cancel()
    # What ran here from now on does so too when it is resumed.
    work_on(found, Silent())
    assert json.loads((detached.path / "job-run.json").read_text())["executor"] == "local"


def invoke(command, *words):
    return CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False)


def test_a_run_prints_what_is_queued_and_why_it_waits_in_few_lines(engine, installed, tmp_path):
    def life(attempt):
        yield Waiting(attempt, "waits for its turn (Priority)")
        if attempt.task.index == 2:
            yield Began(attempt, GRANT, "n2")
            yield Requeued(attempt, "preempted", "preempted by another job")
        yield from succeeds(attempt)

    engine.life = life
    (tmp_path / "job.yaml").write_text("{name: x, command: a, sweep: {repeat: 3}}")
    words = (tmp_path / "job.yaml", "--on", "queueing", "--output", tmp_path / "runs")
    printed = invoke(run_command, *words).output.splitlines()
    shown = [line for line in printed if line.startswith("  ")]
    assert shown == [
        "  queued     3 tasks",
        "  waiting    3 tasks: waits for its turn (Priority)",
        "  started    x[repeat=0] (1 CPU) on n1",
        "  started    x[repeat=1] (1 CPU) on n1",
        "  started    x[repeat=2] (1 CPU) on n2",
        "  succeeded  x[repeat=0] (0.0 s)",
        "  succeeded  x[repeat=1] (0.0 s)",
        "  requeued   x[repeat=2]: preempted by another job",
        "  started    x[repeat=2] (1 CPU) on n1",
        "  succeeded  x[repeat=2] (0.0 s)",
    ]


def test_ps_lists_a_run_without_a_runner_while_its_tasks_go_on(detached, engine):
    (row,) = json.loads(invoke(job_commands.ps, "--json", "--output", detached.path.parent).output)
    assert (row["state"], row["runner_pid"], row["runner_host"]) == ("detached", None, None)
    assert [(task["state"], task["host"]) for task in row["tasks"]] == [("running", "n1")] * 2
    Handle(detached.path).cancel()
    assert "no job is active" in invoke(job_commands.ps, "--output", detached.path.parent).output
