"""Tests of a run's tasks in time."""

from __future__ import annotations

import json

import pytest

from tarmac.jobs import (
    Silent,
    create_run,
    parse_job,
    plan_tasks,
    prepare,
    read_timeline,
    specs_of,
    work_on,
)
from tarmac.jobs.timeline import trace


def line(event, task=0, at=0.0, **values):
    return {"event": event, "task": task, "name": f"t{task}", "at": at, **values}


def made(tmp_path, text, *, runs=True):
    job = parse_job(text)
    run = create_run(job, tmp_path, prepare(job, tmp_path), tmp_path / "runs")
    if runs:
        work_on(run, Silent())
    return run


def spans(one):
    return [(span.number, span.outcome, span.began_at, span.ended_at) for span in one.attempts]


def test_a_run_tells_when_each_attempt_began_and_ended_and_what_it_was_given(tmp_path):
    text = "{name: x, tasks: [{name: a, command: 'true', resources: {cpus: 0.5}}, "
    text += "{name: b, needs: [a], command: 'exit 3', retries: {count: 1, backoff: 0}}, "
    text += "{name: c, needs: [b], command: 'true'}]}"
    found = read_timeline(made(tmp_path, text).path)
    first, second, third = (found.trace_of(task) for task in found.status.tasks)
    assert found.has_times
    assert [span.outcome for span in first.attempts] == ["succeeded"]
    assert first.attempts[0].cpus == 0.5
    assert first.attempts[0].gpus == ()
    assert [(span.number, span.outcome, span.cause) for span in second.attempts] == [
        (1, "failed", "exit"),
        (2, "failed", "exit"),
    ]
    assert third.attempts == []
    moments = [found.began_at]
    for one in (first, second):
        for span in one.attempts:
            moments += [span.began_at, span.ended_at]
    assert moments == sorted(moments)
    assert found.until == third.last_at >= moments[-1]


def test_waiting_in_a_queue_and_being_disturbed_are_told_apart():
    (one,) = trace(
        [
            line("queued", at=1.0, attempt=1, place=""),
            line("queued", at=2.0, attempt=1, place="80_3"),
            line("waiting", at=3.0, attempt=1, reason="waits for its turn (Priority)"),
            line("started", at=9.0, attempt=1, host="n1", cpus=2.0, gpus=["GPU-1"]),
            line("requeued", at=12.0, attempt=1, cause="preempted", reason="it was preempted"),
            line("started", at=15.0, attempt=1, host="n2"),
            line("retried", at=16.0, attempt=1, cause="node", reason="n2 is gone"),
            line("queued", at=17.0, attempt=2, place="81"),
            line("started", at=18.0, attempt=2, host="n3"),
            line("ended", at=20.0, attempts=2, outcome="succeeded", exit_code=0, seconds=1.5),
        ]
    ).values()
    assert spans(one) == [
        (1, "disturbed", 9.0, 12.0),
        (1, "disturbed", 15.0, 16.0),
        (2, "succeeded", 18.0, 20.0),
    ]
    assert [span.queued_at for span in one.attempts] == [1.0, 12.0, 17.0]
    assert [span.host for span in one.attempts] == ["n1", "n2", "n3"]
    assert (one.attempts[0].place, one.attempts[0].gpus) == ("80_3", ("GPU-1",))
    assert one.seconds == 1.5


def test_an_attempt_that_a_killed_runner_left_is_not_taken_for_the_next_one():
    (one,) = trace(
        [
            line("started", at=1.0, attempt=1),
            line("started", at=50.0, attempt=1),
            line("ended", at=60.0, attempts=1, outcome="succeeded"),
        ]
    ).values()
    assert spans(one) == [(1, "interrupted", 1.0, None), (1, "succeeded", 50.0, 60.0)]


def test_an_unknown_event_and_a_skipped_task_are_no_attempts():
    traces = trace([line("sang", at=2.0), line("ended", task=1, at=4.0, outcome="skipped")])
    assert [task.attempts for task in traces.values()] == [[], []]


def test_a_run_of_an_older_version_has_no_times(tmp_path):
    run = made(tmp_path, "{name: x, command: 'true'}")
    journal = run.path / "journal.jsonl"
    old = [json.loads(text) for text in journal.read_text().splitlines()]
    for event in old:
        del event["at"]
    journal.write_text("".join(json.dumps(event) + "\n" for event in old) + '{"event": "sta')
    found = read_timeline(run.path)
    assert not found.has_times
    assert found.until == found.began_at
    assert found.status.state == "succeeded"
    assert spans(found.traces[0]) == [(1, "succeeded", None, None)]


def test_a_run_at_work_goes_until_now(tmp_path):
    run = made(tmp_path, "{name: x, command: 'true'}", runs=False)
    found = read_timeline(run.path)
    assert (found.status.state, found.traces, found.has_times) == ("interrupted", {}, True)
    assert found.until == found.began_at


@pytest.mark.parametrize("is_single", [True, False])
def test_tasks_before_their_sweeps_have_what_the_job_sets(is_single):
    own = "command: 'true'" if is_single else "tasks: [{name: a, command: 'true', needs: []}]"
    job = parse_job(
        f"{{name: x, timeout: 5, env: {{A: b}}, {own}, after_all: {{name: z, command: 'true'}}}}"
    )
    first, last = specs_of(job)
    assert (first.timeout, first.env, last.name) == (5.0, {"A": "b"}, "z")
    assert [task.is_last for task in plan_tasks(job, None)] == [False, True]
