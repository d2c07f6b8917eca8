"""What a monitor shows of a job."""

import json
import os

import pytest

from tarmac.files import OwnerLock, Readings, append_lines
from tarmac.jobs import glance_job, read_status

HERE = os.uname().nodename


@pytest.fixture
def run(tmp_path):
    (tmp_path / "job-run.json").write_text(
        json.dumps(
            {
                "schema_version": 3,
                "name": "x",
                "base": "/",
                "job": {},
                "created_at": "2026-11-22T12:00:00Z",
                "num_tasks": 3,
                "executor": "local",
            }
        )
    )
    return tmp_path


@pytest.fixture
def held(run):
    lock = OwnerLock(run / ".lock")
    assert lock.acquire()
    runner = {"pid": 77, "start_ticks": 1, "boot_id": "x", "host": HERE}
    (run / "runner.json").write_text(json.dumps(runner))
    yield run
    lock.release()


def event(kind, task, **fields):
    return {"event": kind, "task": task, "name": f"t{task}", "attempt": 1, **fields}


def ended(task, outcome):
    return event("ended", task, outcome=outcome, reason="", exit_code=0, seconds=1.0)


def tell(run, *events):
    append_lines(run / "journal.jsonl", events)


def test_tasks_at_work_are_parts_and_the_others_are_counted(held):
    tell(held, event("started", 0), ended(0, "failed"), event("started", 1))
    glance = glance_job(held)
    assert (glance.kind, glance.status, glance.pids) == ("job", "running", (77,))
    assert (glance.done, glance.total, glance.note) == (1, 3, "1 failed")
    (part,) = glance.parts
    assert (part.kind, part.name, part.status) == ("task", f"{held.name}/t1", "running")
    assert part.variables == {"TARMAC_TASK_INDEX": "1", "TARMAC_ATTEMPT": "1"}
    assert part.path == held / "tasks" / "000001-t1"


def test_a_task_that_is_tried_again_is_at_work_again(held):
    tell(held, event("started", 0), event("retried", 0, reason="exit code 1"))
    tell(held, event("started", 0, attempt=2))
    (part,) = glance_job(held).parts
    assert (part.retries, part.note) == (1, "")


def test_a_resumed_job_does_not_count_a_task_twice(held):
    tell(held, event("started", 0), ended(0, "failed"), event("started", 0, attempt=2))
    glance = glance_job(held)
    assert (glance.done, len(glance.parts), glance.note) == (0, 1, "")
    tell(held, ended(0, "succeeded"))
    assert glance_job(held).done == 1


def test_a_task_in_a_queue_waits_and_says_for_what(held):
    tell(held, event("queued", 0, place="80_3"), event("waiting", 0, reason="waits (Priority)"))
    (part,) = glance_job(held).parts
    assert (part.status, part.slurm_job, part.note) == ("queued", "80_3", "waits (Priority)")


def test_of_thousands_in_a_queue_the_first_are_shown(held):
    tell(held, *(event("queued", n) for n in range(1000)))
    assert len(glance_job(held).parts) == 32


def write_attempt(run, task, **fields):
    directory = run / "tasks" / f"00000{task}-t{task}"
    directory.mkdir(parents=True)
    record = {"schema": 1, "nonce": "x", **fields}
    (directory / "attempt-1.json").write_text(json.dumps(record))


def test_a_task_on_a_node_is_shown_as_its_agent_says(held):
    tell(held, event("queued", 0, place="81"))
    process = {"pid": 500, "host": HERE}
    write_attempt(held, 0, state="began", host=HERE, gpus=["GPU-3"], process=process)
    (part,) = glance_job(held).parts
    assert (part.status, part.pids, part.gpus, part.host) == ("running", (500,), ("GPU-3",), "")


def test_a_task_here_has_the_gpus_that_the_journal_says(held):
    tell(held, event("started", 0, cpus=1.0, gpus=["GPU-1"]), event("started", 1, cpus=1.0))
    # Of a version that wrote neither, nothing is known.
    tell(held, event("started", 2))
    assert [part.gpus for part in glance_job(held).parts] == [("GPU-1",), (), None]
    tell(held, event("retried", 0, reason="exit code 1"))
    assert glance_job(held).parts[0].gpus is None


def on(run, executor):
    record = json.loads((run / "job-run.json").read_text())
    (run / "job-run.json").write_text(json.dumps(record | {"executor": executor}))


def test_without_a_runner_what_an_engine_has_goes_on(run):
    on(run, "slurm")
    tell(run, event("queued", 0, place="81"), event("queued", 1, place="82"))
    tell(run, event("started", 2))
    write_attempt(run, 0, state="ended", outcome="succeeded")
    glance = glance_job(run)
    assert (glance.status, glance.done) == ("detached", 1)
    assert [part.name for part in glance.parts] == [f"{run.name}/t1"]


def test_what_an_engine_ends_with_its_runner_is_not_at_work(run):
    on(run, "ray")
    tell(run, event("queued", 0, place="x-0"), event("started", 1, host="n1"))
    tell(run, event("started", 2, host="n1"))
    write_attempt(run, 2, state="ended", outcome="succeeded")
    glance = glance_job(run)
    assert (glance.status, glance.done, glance.parts) == ("interrupted", 1, ())


@pytest.mark.parametrize(
    ("events", "agents", "state"),
    [
        pytest.param(
            [event("started", 0, host="n1"), event("retried", 0, reason="no", host="n1")],
            {},
            "interrupted",
            id="only a runner starts the next attempt",
        ),
        pytest.param(
            [event("queued", 0, place="81")],
            {"state": "ended", "outcome": "succeeded", "problems": ["out.txt is missing"]},
            "failed",
            id="an output is missing",
        ),
        pytest.param(
            [event("queued", 0, place="81")],
            {"state": "claimed", "host": "n1"},
            "detached",
            id="an agent works on it",
        ),
        pytest.param(
            [event("queued", 0, place="81")],
            {"state": "fenced"},
            "interrupted",
            id="its runner gave it up before an agent claimed it",
        ),
    ],
)
def test_a_monitor_and_ps_agree_on_a_run_without_a_runner(run, events, agents, state):
    on(run, "slurm")
    record = json.loads((run / "job-run.json").read_text())
    (run / "job-run.json").write_text(json.dumps(record | {"num_tasks": 1}))
    tell(run, *events)
    if agents:
        write_attempt(run, 0, **agents)
    status, glance = read_status(run), glance_job(run)
    assert (status.state, glance.status) == (state, state)
    active = [task.state for task in status.tasks if task.state in ("queued", "running")]
    assert [part.status for part in glance.parts] == active


def test_a_task_that_waits_for_its_retry_shows_why(held):
    tell(held, event("started", 0), event("retried", 0, reason="exit code 1"))
    assert [task.reason for task in read_status(held).tasks] == ["exit code 1"]
    assert [part.note for part in glance_job(held).parts] == ["exit code 1"]


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        (("succeeded",) * 3, "succeeded"),
        (("succeeded", "failed", "skipped"), "failed"),
        (("succeeded", "interrupted", "succeeded"), "interrupted"),
        (("succeeded",), "interrupted"),
        ((), "interrupted"),
    ],
)
def test_a_job_that_nobody_works_on_stands_as_its_tasks_ended(run, outcomes, status):
    tell(run, *(ended(number, outcome) for number, outcome in enumerate(outcomes)))
    glance = glance_job(run)
    assert (glance.status, glance.parts, glance.pids) == (status, (), ())


def test_lines_that_are_none_are_left_out(held):
    lines = ['{"event": "started", "task": 0, "name": "t0"}', "7", "{}", "no", '{"event": "sta']
    (held / "journal.jsonl").write_text("\n".join(lines))
    assert len(glance_job(held).parts) == 1


def test_a_journal_is_read_only_as_far_as_it_has_grown(held):
    readings = Readings()
    tell(held, event("started", 0))
    assert glance_job(held, readings).done == 0
    tell(held, ended(0, "succeeded"), event("started", 1))
    glance = glance_job(held, readings)
    assert (glance.done, [part.name for part in glance.parts]) == (1, [f"{held.name}/t1"])


def test_a_directory_that_is_no_job_is_unknown(tmp_path):
    assert glance_job(tmp_path / "none").status == "unknown"
