"""Attempts in an engine's queue, where the engine answers late, nothing, or no."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tarmac.errors import RequestError
from tarmac.executors.events import Began, Queued, Requeued
from tarmac.executors.queueing import (
    Accepted,
    ClusterId,
    Ending,
    Full,
    Patience,
    QueueingExecutor,
    Refused,
    Shown,
    Silent,
    Terms,
)
from tarmac.executors.queueing.engine import UnitName
from tarmac.jobs import Attempt, Finished, Site, parse_job, plan_tasks
from tarmac.node import AttemptRecord, AttemptSpec, attempt_file, fence_file, read_attempt
from waiting import limit_s

_PATIENCE_S = 60.0
SAMPLES = Path(__file__).parent / "samples"
_NOBODY = Silent("sbatch: Socket timed out")


class Scripted:
    """An engine that answers as a test says.

    Attributes:
        answers: To submissions, one after another; the last one stays.
        shown: What it shows of each unit.
        found: What it has under a chunk's name.
        excluded: Hosts that each submission excluded.
        cancelled: Jobs and units that were ended.
        changed: Jobs of which what waits was to avoid hosts, or of which more may run.
    """

    title = "Engine"
    most_units = 100
    keeps_units = True

    def __init__(self) -> None:
        self.answers = [Accepted("80")]
        self.shown: dict[UnitName, Shown] | Silent = {}
        self.found = None
        self.cluster_name, self.address = "s1", ""
        self.excluded: list[set[str]] = []
        self.cancelled: list[tuple[str, int]] = []
        self.changed: list[str] = []
        self.chunks = []

    def cluster(self):
        uid = f"{self.cluster_name}@{self.address}" if self.address else ""
        return ClusterId(self.cluster_name, uid, way="CONF=s1")

    def shape(self, task):
        return {}

    def terms(self, task):
        return Terms()

    def submit(self, chunk, *, most_at_once, excluded):
        self.excluded.append(set(excluded))
        self.chunks.append(chunk)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def find(self, chunk):
        return self.found

    def look(self, chunks):
        return self.shown

    def endings(self, units):
        return {}

    def final_status(self, chunk, unit):
        return None

    def cancel(self, units=(), chunks=()):
        self.cancelled += [(chunk.job, unit) for chunk, unit in units]

    def avoid(self, chunk, hosts):
        self.changed.append(chunk.job)

    def throttle(self, chunk, most_at_once):
        self.changed.append(chunk.job)


@dataclasses.dataclass
class Queue:
    """A run's attempts with an engine, and what opens the executor of its next session."""

    engine: Scripted
    executor: QueueingExecutor
    attempts: list[Attempt]
    open_again: Callable[[], QueueingExecutor]

    def finished(self) -> list[Finished]:
        """Wait until all attempts have finished."""
        ends: list[Finished] = []
        deadline = time.monotonic() + limit_s(_PATIENCE_S)
        while len(ends) < len(self.attempts):
            assert time.monotonic() < deadline
            ends += [e for e in self.executor.wait(0.1) if isinstance(e, Finished)]
        return ends

    def wait_until(self, is_so) -> None:
        deadline = time.monotonic() + limit_s(_PATIENCE_S)
        while not is_so():
            assert time.monotonic() < deadline
            self.executor.wait(0.05)

    def write(self, number: int, **values) -> None:
        """Write an attempt's record, as its agent does."""
        attempt = self.attempts[number]
        record = AttemptRecord(
            self.engine.chunks[-1].nonce, **{"state": "began", "host": "n1", **values}
        )
        attempt.directory.mkdir(parents=True, exist_ok=True)
        attempt_file(attempt.directory, attempt.number).write_bytes(record.to_bytes())


@pytest.fixture
def queue(tmp_path, monkeypatch):
    monkeypatch.setattr("tarmac.executors.queueing.submissions._AGAIN_SOON_S", 0.1)
    monkeypatch.setattr("tarmac.executors.queueing.watch._LOOK_SOON_S", 0.1)
    tasks = plan_tasks(parse_job("{name: x, command: a, sweep: {repeat: 3}}"), tmp_path)
    attempts = [Attempt(task, 1, tmp_path / "tasks" / str(task.index)) for task in tasks]

    def prepare(attempt: Attempt, nonce: str) -> AttemptSpec:
        directory = str(attempt.directory)
        return AttemptSpec(attempt.task.index, attempt.task.name, 1, nonce, directory, ["a"])

    site = Site(tasks=tasks, run=tmp_path, base=tmp_path, shared=tmp_path / "shared")
    engine = Scripted()
    patience = Patience(
        record_s=0.1, reason_s=0.1, success_s=0.1, unknown_s=0.1, unknown_looks=1, beat_s=0.1
    )
    executor = QueueingExecutor(engine, site, prepare, patience=patience, find_again_s=0.05)
    yield Queue(engine, executor, attempts, lambda: QueueingExecutor(engine, site, prepare))
    executor.close()


def states(queue: Queue) -> list[str]:
    records = [read_attempt(attempt.directory, 1) for attempt in queue.attempts]
    return ["" if record is None else record.state for record in records]


def test_what_was_stopped_on_its_way_never_begins_should_it_come_late(queue):
    queue.engine.answers = [_NOBODY]
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.chunks)
    queue.executor.stop()
    assert {(end.outcome, end.cause) for end in queue.finished()} == {("interrupted", "stop")}
    assert states(queue) == ["fenced"] * 3


@pytest.mark.parametrize(
    ("answer", "cause"), [(Full("no room"), "evicted"), (Refused("no such account"), "start")]
)
def test_what_an_engine_may_have_and_does_not_take_is_no_other_chunks(queue, answer, cause):
    queue.engine.answers = [_NOBODY, answer]
    queue.executor.start(queue.attempts)
    assert {(end.outcome, end.cause) for end in queue.finished()} == {("failed", cause)}
    assert states(queue) == ["fenced"] * 3
    assert len({chunk.name for chunk in queue.engine.chunks}) == 1


def test_an_attempt_is_ended_whose_job_is_known_late(queue):
    queue.engine.answers = [_NOBODY]
    queue.engine.found = queue.engine.shown = Silent("squeue: Socket timed out")
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.chunks)
    queue.write(0)
    queue.wait_until(lambda: queue.executor._ledger.chunks[0].is_submitted)
    queue.executor.end(queue.attempts[0], "enough", 1.0)
    queue.executor.wait(0.2)
    units = [UnitName(0, number) for number in range(3)]
    queue.engine.shown = {unit: Shown("running", "80") for unit in units}
    queue.wait_until(lambda: queue.engine.cancelled)
    assert queue.engine.cancelled == [("80", 0)]


def avoid(queue, host):
    unfit = Finished(queue.attempts[0], "failed", cause="node", bad_host=host)
    queue.executor._ledger.hosts.note(unfit)


def test_nothing_is_changed_of_what_waits_in_a_job_that_is_not_known_yet(queue):
    queue.engine.answers = [_NOBODY]
    queue.engine.found = queue.engine.shown = Silent("squeue: Socket timed out")
    queue.executor._submissions._concurrency = 2
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.executor._ledger.chunks)
    chunk = queue.executor._ledger.chunks[0]
    # One host is to be avoided, and less may run than was told.
    avoid(queue, "n1")
    chunk.most_at_once = 3
    queue.write(0)
    queue.wait_until(lambda: chunk.is_submitted)
    queue.executor.wait(0.2)
    assert queue.engine.changed == []
    phases = ("running", "waiting", "waiting")
    queue.engine.shown = {
        UnitName(0, number): Shown(phase, "80") for number, phase in enumerate(phases)
    }
    queue.wait_until(lambda: len(queue.engine.changed) == 2)
    assert queue.engine.changed == ["80"] * 2


def test_an_attempt_that_follows_another_keeps_that_from_beginning_again(queue):
    queue.engine.shown = {UnitName(0, 0): Shown("running", "80")}
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.chunks)
    for number in range(3):
        queue.write(number, state="ended", outcome="interrupted", cause="stop", seconds=1.0)
    queue.engine.shown = {}
    assert {(end.outcome, end.cause) for end in queue.finished()} == {("failed", "lost")}
    assert all(fence_file(attempt.directory, 1).exists() for attempt in queue.attempts)


def test_what_an_agent_writes_after_its_attempt_was_queued_again_is_told_of_no_new_try(queue):
    events = []

    def see_until(is_so):
        deadline = time.monotonic() + limit_s(_PATIENCE_S)
        while not is_so():
            assert time.monotonic() < deadline
            events.extend(queue.executor.wait(0.05))

    del queue.attempts[1:]
    name = UnitName(0, 0)
    queue.engine.shown = {name: Shown("running", "80")}
    queue.executor.start(queue.attempts)
    see_until(lambda: queue.engine.chunks)
    queue.write(0)
    see_until(lambda: any(isinstance(event, Began) for event in events))
    queue.engine.shown = {name: Shown("waiting", "80")}
    see_until(lambda: any(isinstance(event, Requeued) for event in events))
    (flight,) = queue.executor._ledger.flights.values()
    queue.write(0, state="ended", outcome="interrupted", cause="stop", seconds=1.0)
    see_until(lambda: flight.evidence.record.state == "ended")
    queue.engine.shown = {name: Shown("running", "80")}
    queue.write(0, restart=1)
    see_until(lambda: flight.restart == 1)
    queue.write(0, restart=1, state="ended", outcome="succeeded", exit_code=0, seconds=1.0)
    see_until(lambda: any(isinstance(event, Finished) for event in events))
    told = [type(event) for event in events if not isinstance(event, Queued)]
    assert told == [Began, Requeued, Began, Finished]


def test_where_only_avoided_hosts_are_left_they_are_taken(queue):
    avoid(queue, "n1")
    queue.engine.answers = [Refused("node configuration is not available"), Accepted("80")]
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: len(queue.engine.excluded) == 2)
    for number in range(3):
        queue.write(number, state="ended", outcome="succeeded", exit_code=0)
    assert {end.outcome for end in queue.finished()} == {"succeeded"}
    assert queue.engine.excluded == [{"n1"}, set()]


def test_that_a_host_is_avoided_is_told_with_what_was_one_too_many(queue):
    now = time.monotonic()
    queue.executor._ledger.hosts._events["n1", "node"] = [now - 2000, now - 1000]
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.chunks)
    for number in range(3):
        values = {"outcome": "failed", "cause": "node", "reason": "n1 was lost"}
        queue.write(number, state="ended", **values)
    reasons = [end.reason for end in queue.finished()]
    assert sorted(reasons)[:2] == ["n1 was lost"] * 2
    assert sorted(reasons)[2] == (
        "n1 was lost; n1 has disturbed tasks in 3 events within a day: this session avoids it "
        "until the first of them is a day old"
    )


NOT_STARTED = {"outcome": "failed", "cause": "start", "reason": "no driver"}


def test_what_one_host_does_not_start_spends_no_retry_where_another_one_does(queue):
    # What an engine does not show counts as lost.
    queue.engine.shown = _NOBODY
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.chunks)
    queue.write(0, state="ended", host="h1", **NOT_STARTED)
    ends = []
    ends += queue.executor.wait(0.3)
    assert not [end for end in ends if isinstance(end, Finished)]
    queue.write(1, host="a1")
    queue.wait_until(lambda: len(queue.executor._ledger.flights) == 2)
    queue.write(1, state="ended", outcome="succeeded", exit_code=0, host="a1", seconds=1.0)
    queue.write(2, state="ended", host="h1", **NOT_STARTED)
    queue.wait_until(lambda: not queue.executor._ledger.flights)
    assert queue.executor._ledger.hosts._blamed == {"h1": 2}


def test_what_no_host_starts_is_the_tasks_own_failure(queue):
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.chunks)
    for number, host in enumerate(("h1", "h1", "a1")):
        queue.write(number, state="ended", host=host, **NOT_STARTED)
    assert {(end.cause, end.reason) for end in queue.finished()} == {("start", "no driver")}


def test_a_failed_start_of_the_last_attempt_waits_for_no_other_one(queue):
    del queue.attempts[1:]
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.chunks)
    queue.write(0, state="ended", host="h1", **NOT_STARTED)
    assert [end.cause for end in queue.finished()] == ["start"]


def test_a_host_that_starts_nothing_gets_nothing_of_later_submissions(queue, tmp_path):
    hosts = queue.executor._ledger.hosts
    hosts.note_start("a1", queue.attempts[0].task.spec)
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.chunks)
    for number in range(3):
        queue.write(number, state="ended", host="h1", **NOT_STARTED)
    ends = queue.finished()
    assert [end.cause for end in ends] == ["node"] * 3
    assert sum("this session avoids it" in end.reason for end in ends) == 1
    again = dataclasses.replace(queue.attempts[0], number=2)
    queue.executor.start([again])
    queue.wait_until(lambda: len(queue.engine.chunks) == 2)
    assert queue.engine.excluded == [set(), {"h1"}]
    queue.executor.stop()
    queue.wait_until(lambda: not queue.executor._ledger.flights)


@pytest.mark.parametrize(
    ("starting", "cause", "blamed"), [((), "start", {}), (("a1",), "node", {"n1": 1})]
)
def test_what_its_job_ends_before_any_turn_fails_as_it_does_alone(queue, starting, cause, blamed):
    engine, hosts = queue.engine, queue.executor._ledger.hosts
    engine.terms, engine.shown = lambda task: Terms(per_unit=3), {}
    engine.endings = lambda units: {
        UnitName(chunk.number, unit): Ending("start", "setup failed", "n1") for chunk, unit in units
    }
    for host in starting:
        hosts.note_start(host, queue.attempts[0].task.spec)
    queue.executor.start(queue.attempts)
    ends = queue.finished()
    assert {end.cause for end in ends} == {cause}
    assert {end.reason.partition(";")[0] for end in ends} == {"setup failed"}
    assert hosts._blamed == blamed


def test_two_that_believe_to_be_a_runs_runner_share_no_chunk(queue, tmp_path):
    (tmp_path / "chunks" / "0000").mkdir(parents=True)
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.chunks)
    assert queue.engine.chunks[0].number == 1
    for number in range(3):
        queue.write(number, state="ended", outcome="succeeded", exit_code=0)
    queue.finished()


def test_news_that_come_while_a_look_is_heard_are_looked_at(queue, monkeypatch):
    class Late(Scripted):
        """Has news between its look and the hearing of it."""

        looks = 0

        def look(self, chunks):
            self.looks += 1
            if self.looks == 2:
                monkeypatch.setattr("tarmac.executors.queueing.watch._LOOK_SOON_S", 1000.0)
                queue.executor._watch._look_pause_s = 1000.0
                queue.executor.look_now()
            return self.shown

    queue.engine = queue.executor._watch._engine = Late()
    units = [UnitName(0, number) for number in range(3)]
    queue.engine.shown = {unit: Shown("running", "80") for unit in units}
    queue.executor._submissions._engine = queue.engine
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.looks == 3)
    for number in range(3):
        queue.write(number, state="ended", outcome="succeeded", exit_code=0)
    assert {end.outcome for end in queue.finished()} == {"succeeded"}


def attach(queue: Queue) -> list[Queued | Began]:
    """Take up in a new session what the first one has left."""
    attempts = {(attempt.task.index, 1): attempt for attempt in queue.attempts}
    return [*queue.open_again().attach(lambda index, number: attempts[index, number])]


@pytest.fixture
def left(queue):
    """Hand three attempts to an engine, and let go of them."""
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.chunks)
    queue.executor.detach()
    return queue


def test_what_is_left_on_a_cluster_is_taken_up_there(left):
    assert len(attach(left)) == 3


def test_what_is_left_on_a_cluster_is_neither_taken_up_nor_ended_on_another_one(left):
    left.engine.cluster_name = "s2"
    with pytest.raises(RequestError, match="on the Engine cluster s1, and this is s2") as refused:
        attach(left)
    assert "CONF=s1 tarmac run --resume" in refused.value.hint
    assert "CONF=s1 tarmac cancel" in refused.value.hint
    assert not left.engine.cancelled


def test_what_is_left_on_a_cluster_is_taken_up_on_none_of_the_same_name(queue):
    queue.engine.address = "head1:6817"
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.chunks)
    queue.executor.detach()
    queue.engine.address = "head2:6817"
    is_elsewhere = r"Engine cluster s1 \(head1:6817\), and this is s1 \(head2:6817\)"
    with pytest.raises(RequestError, match=is_elsewhere):
        attach(queue)
    # Its controller has moved, with its jobs.
    queue.engine.found = Accepted("80")
    assert len(attach(queue)) == 3


def test_what_ends_with_its_runner_may_go_on_on_another_cluster(left):
    left.engine.cluster_name, left.engine.keeps_units = "s2", False
    assert len(attach(left)) == 3


def test_what_was_left_before_clusters_were_recorded_is_taken_up_anywhere(left, tmp_path):
    path = tmp_path / "chunks" / "0000.json"
    assert json.loads(path.read_text())["cluster"]["name"] == "s1"
    shutil.copy(SAMPLES / "chunk-schema-1.json", path)
    left.engine.cluster_name = "s2"
    assert len(attach(left)) == 3


def test_what_is_over_on_a_cluster_keeps_nothing_from_another_one(queue):
    queue.executor.start(queue.attempts)
    queue.wait_until(lambda: queue.engine.chunks)
    for number in range(3):
        queue.write(number, state="ended", outcome="failed", cause="exit", exit_code=1)
    queue.finished()
    queue.executor.wait(0.0)
    queue.engine.cluster_name = "s2"
    assert attach(queue) == []
