"""What the status says of a runner that is an engine's job, by what the engine answers."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable

import pytest

from engines import Engine
from tarmac.jobs import RunnerState, create_run, parse_job, plan_tasks, read_status
from tarmac.jobs.job_run import working_on
from tarmac.jobs.journal import Journal
from tarmac.jobs.runner_watch import RunnerWatch
from tarmac.node import AttemptRecord, attempt_file
from tarmac.tasks.runner_notes import (
    RUNNER_JOB,
    mark_runner,
    note_runner_place,
    reserve_runner,
)


@dataclasses.dataclass
class Runners:
    """An engine's answers for runners.

    Attributes:
        states: What it says of each, by number.
        meanwhile: Called while it is asked.
        asked: For which it was asked.
    """

    states: dict[int, RunnerState]
    meanwhile: Callable[[], object] = lambda: None
    asked: list[int] = dataclasses.field(default_factory=list)

    def look(self, _run, number, _place, _since):
        self.asked.append(number)
        self.meanwhile()
        return self.states[number]


@pytest.fixture
def runners(monkeypatch):
    """Let an engine answer for runners."""
    answers = Runners({})
    kind = dataclasses.replace(Engine().kind("queueing"), runners=answers)
    monkeypatch.setattr("tarmac.executors.find_executor", lambda _: kind)
    return answers


@pytest.fixture
def run(tmp_path):
    job = parse_job("{name: x, command: a}")
    tasks = [*plan_tasks(job, tmp_path)]
    return create_run(job, tmp_path, tasks, tmp_path / "runs", executor="queueing").path


def submit(run):
    """Note that a runner was submitted."""
    number = reserve_runner(run)
    note_runner_place(run, number, str(80 + number))
    return number


def test_a_runner_that_begins_while_its_engine_is_asked_is_not_gone(run, runners, monkeypatch):
    number = submit(run)
    runners.states[number] = RunnerState("runs", "job 81 runs on n1")
    monkeypatch.setenv(RUNNER_JOB, f"{number}:{run.name}")
    working = working_on(run)
    runners.meanwhile = working.__enter__
    try:
        assert read_status(run).state == "queued"
        assert read_status(run).state == "running"
    finally:
        working.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("kind", "state"), [("waits", "queued"), ("runs", "queued"), ("ended", "interrupted")]
)
def test_a_runner_that_its_engine_begins_once_more_is_waited_for(run, runners, kind, state):
    number = submit(run)
    mark_runner(run, number, "begun")
    runners.states[number] = RunnerState(kind, "job 81 so it is")
    assert read_status(run).state == state


def test_what_was_said_of_a_runner_is_not_so_of_the_next(run, runners):
    runners.states[submit(run)] = RunnerState("ended", "job 81 was cancelled")
    watch = RunnerWatch()
    assert [read_status(run, runners=watch).state for _ in range(2)] == ["interrupted"] * 2
    runners.states[submit(run)] = RunnerState("waits", "job 82 waits for its turn (Priority)")
    status = read_status(run, runners=watch)
    assert (status.state, status.runner_note) == ("queued", "job 82 waits for its turn (Priority)")
    assert runners.asked == [1, 2]


def test_an_engine_that_has_not_answered_for_one_run_is_left_alone_but_not_one_that_has(
    run, tmp_path, runners
):
    other = tmp_path / "runs" / "other"
    shutil.copytree(run, other)
    for kind, asked in (("elsewhere", [1, 1]), ("unknown", [1])):
        runners.asked.clear()
        runners.states[1] = RunnerState(kind, "job 81 is there")
        watch = RunnerWatch()
        for path in (run, other):
            if not (path / "runners").exists():
                submit(path)
            assert read_status(path, runners=watch).state == "queued"
        assert runners.asked == asked


def test_nothing_is_said_of_a_lost_runner_whose_tasks_have_all_succeeded_without_it(run, runners):
    runners.states[submit(run)] = RunnerState("ended", "job 81 was lost with its node")
    with Journal(run / "journal.jsonl") as journal:
        journal.write_all([{"event": "queued", "task": 0, "name": "x", "attempt": 1, "place": "7"}])
    status = read_status(run)
    assert (status.state, status.runner_note) == ("detached", "job 81 was lost with its node")
    directory = status.tasks[0].directory
    directory.mkdir(parents=True)
    record = AttemptRecord("nonce", "ended", outcome="succeeded", exit_code=0, host="n2")
    attempt_file(directory, 1).write_bytes(record.to_bytes())
    status = read_status(run)
    assert (status.state, status.runner_note) == ("succeeded", "")
