"""What follows each end of an attempt that an engine has of a pipeline's task."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engines import Engine
from tarmac.files import append_lines
from tarmac.formats import read_algorithm
from tarmac.hkube.clusters import ClusterHost
from tarmac.hkube.clusters.node_tasks import NodeTaskSpec, ending_file, errand_file, write_ending
from tarmac.hkube.hosting import Ending, Work
from tarmac.hkube.running.history import open_history
from tarmac.jobs import Finished, read_history

WORK = Work(
    index=0, name="a", task_id="t0", algorithm="own", input=[1], job_id="j", pipeline="p", node="a"
)
QUEUED = {"event": "queued", "task": 0, "name": "a"}


def succeeds(attempt):
    write_ending(ending_file(errand_file(attempt.directory, attempt.number)), Ending(work=WORK))
    yield Finished(attempt, "succeeded", exit_code=0)


def until(number, **how):
    """Return what becomes of an attempt: it fails, until the one of some number."""

    def life(attempt):
        if attempt.number >= number:
            return succeeds(attempt)
        return iter([Finished(attempt, "failed", "so it was", **how)])

    return life


class Watcher:
    """A watcher that notes after which attempts another one follows."""

    def __init__(self) -> None:
        self.again = []

    def restarting(self, work, attempt, cause, reason, delay_s, *, goes_on):
        assert (work.name, reason) == ("a", "so it was")
        self.again.append((attempt, cause, delay_s, goes_on))

    def queued(self, *_):
        pass


@pytest.fixture
def ending_of(tmp_path, monkeypatch):
    """Return a function that gives a task's ending, by what becomes of its attempts."""
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda count: count / 1000)

    async def work_on(life, watcher):
        engine = Engine(life)
        monkeypatch.setattr(
            "tarmac.hkube.clusters.host.find_executor", lambda _: engine.kind("queueing")
        )
        own = {"command": ["true"], "protocol": "plain"}
        algorithm = read_algorithm({"name": "own", "options": {"tarmac": own}})
        host = ClusterHost(
            {"own": algorithm},
            tmp_path,
            base=tmp_path,
            watcher=watcher,
            calls=None,
            on="local",
            options={},
        )
        async with host:
            return await host.submit(WORK)

    def end(life, watcher=None):
        return asyncio.run(work_on(life, watcher or Watcher()))

    return end


def test_a_crash_spends_an_attempt_and_a_disturbance_does_not(ending_of):
    lives = {1: "node", 2: "exit", 3: "preempted", 4: "exit", 5: "exit"}
    watcher = Watcher()
    ending = ending_of(lambda attempt: until(6, cause=lives[attempt.number])(attempt), watcher)
    assert (ending.why, ending.message, ending.attempts) == ("crash", "so it was", 5)
    assert watcher.again == [
        (1, "node", 0.001, False),
        (2, "exit", 0.0, False),
        (3, "preempted", 0.002, False),
        (4, "exit", 0.0, False),
    ]


def test_a_task_that_continues_after_the_engines_limit_does_so_as_often_as_needed(ending_of):
    watcher = Watcher()
    ending = ending_of(until(15, cause="timeout", goes_on=True), watcher)
    assert (ending.succeeded, ending.attempts) == (True, 15)
    assert watcher.again == [(number, "timeout", 0.0, True) for number in range(1, 15)]


@pytest.mark.parametrize("num_earlier", [0, 4])
def test_a_task_is_given_up_after_ten_disturbances_in_all_sessions(
    ending_of, tmp_path, num_earlier
):
    for number in range(1, num_earlier + 1):
        retried = QUEUED | {"event": "retried", "cause": "node"}
        events = [event | {"attempt": number} for event in (QUEUED, retried)]
        append_lines(tmp_path / "journal.jsonl", events)
    ending = ending_of(until(100, cause="node"))
    expected = ("crash", "so it was; disturbed 11 times", 11)
    assert (ending.why, ending.message, ending.attempts) == expected


@pytest.mark.parametrize(
    ("more", "is_read"),
    [
        ({"outcome": "succeeded"}, True),
        ({"outcome": "failed"}, False),
        # An earlier session has read the result.
        ({"outcome": "succeeded", "why": "", "input": "i", "result": [0, 5]}, False),
    ],
)
def test_a_result_that_no_session_has_read_is_taken_and_no_other(
    ending_of, tmp_path, more, is_read
):
    directory = tmp_path / "tasks" / "000000-a"
    directory.mkdir(parents=True)
    errand = errand_file(directory, 1)
    own = {"command": ["true"], "protocol": "plain"}
    algorithm = read_algorithm({"name": "own", "options": {"tarmac": own}})
    NodeTaskSpec(work=WORK, algorithm=algorithm, base=Path("/")).write(errand)
    write_ending(ending_file(errand), Ending(work=WORK))
    ended = {"event": "ended", "task": 0, "name": "a", "reason": "", "seconds": 1.0}
    append_lines(tmp_path / "journal.jsonl", [QUEUED | {"attempt": 1}, ended | more])
    ending = ending_of(until(1))
    assert (ending.succeeded, ending.attempts) == (True, 1 if is_read else 2)


def test_the_journal_counts_for_a_later_session_as_it_did_in_this_one(tmp_path):
    with open_history(tmp_path, keeps_failures=False) as history:
        history.queued(WORK, 1, tmp_path, "80_0")
        history.restarting(WORK, 1, "node", "so it was", goes_on=False)
        history.restarting(WORK, 2, "timeout", "so it was", goes_on=True)
        history.restarting(WORK, 3, None, "so it was", goes_on=False)
    past = read_history(tmp_path / "journal.jsonl").of(0)
    assert (past.last, past.settled, past.spent, past.disturbances) == (3, 3, 1, 1)
