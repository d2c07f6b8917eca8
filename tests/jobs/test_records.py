"""A job's run is read by every later version, and keeps to itself what may be secret."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

import tarmac
from tarmac import RequestError, TarmacError
from tarmac.jobs import (
    Handle,
    Job,
    JobFailed,
    create_run,
    find_run,
    note_outcome,
    parse_job,
    plan_tasks,
    read_status,
)
from tarmac.jobs.kind import reserved
from tarmac.jobs.runner_record import is_asked_to_end
from tarmac.processes import ProcessIdentity
from waiting import limit_s

SAMPLES = Path(__file__).parent / "samples"
SAMPLE = SAMPLES / "job-run-schema-1.json"


@pytest.mark.parametrize("schema", [1, 2, 3])
def test_a_run_of_an_older_schema_can_always_be_read(tmp_path, schema):
    run = tmp_path / "nightly-1"
    run.mkdir()
    shutil.copy(SAMPLES / f"job-run-schema-{schema}.json", run / "job-run.json")
    status = read_status(run)
    assert (status.state, status.num_tasks) == ("interrupted", 3)
    found = find_run("latest", tmp_path)
    assert [task.name for task in found.tasks] == ["prepare", "fit[rate=0.1]", "fit[rate=0.01]"]
    assert found.executor == "local"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"schema_version": 5}, RequestError, r"newer Tarmac \(schema 5, this one reads up to 4\)"),
        ({"schema_version": None}, TarmacError, "is damaged: schema_version is None"),
        ({"num_tasks": "many"}, TarmacError, "is damaged: num_tasks"),
    ],
)
def test_a_record_that_cannot_be_read_is_refused_in_words(tmp_path, change, error, message):
    content = json.loads(SAMPLE.read_text()) | change
    (tmp_path / "job-run.json").write_text(json.dumps(content))
    with pytest.raises(error, match=message):
        read_status(tmp_path)


@pytest.mark.parametrize(
    ("source", "others_may_read"),
    [
        ("https://example.org/data", True),
        ("https://me:hunter2@example.org/data", False),
        ("https://example.org/data?sig=hunter2", False),
    ],
)
def test_a_record_with_a_password_in_a_url_is_its_owners_alone(tmp_path, source, others_may_read):
    job = parse_job(f"{{name: x, command: a, inputs: [{{from: '{source}'}}]}}")
    run = create_run(job, tmp_path, [*plan_tasks(job, tmp_path)], tmp_path)
    mode = stat.S_IMODE((run.path / "job-run.json").stat().st_mode)
    assert bool(mode & 0o044) == others_may_read


def test_a_job_is_run_to_its_end(tmp_path):
    handle = tarmac.run(Job(name="hello", command=("echo", "hello")), output=tmp_path)
    assert handle.done()
    assert handle.stdout() == "hello\n"


def test_a_job_that_fails_says_what_failed(tmp_path):
    with pytest.raises(JobFailed, match="1 of 1 task did not succeed: x: exit code 3") as caught:
        tarmac.run(Job(name="x", command="exit 3"), output=tmp_path)
    assert [task.exit_code for task in caught.value.tasks] == [3]


@pytest.mark.parametrize("start", [tarmac.run, tarmac.submit], ids=["run", "submit"])
def test_a_named_secret_may_be_said_in_the_users_configuration_alone(tmp_path, monkeypatch, start):
    (tmp_path / "secrets.toml").write_text('"store/key" = { file = "key" }\n')
    (tmp_path / "key").write_text("pssst-17\n")
    monkeypatch.setenv("TARMAC_SECRETS", str(tmp_path / "secrets.toml"))
    job = parse_job(
        "{name: x, command: test $KEY = pssst-17, secrets: {KEY: {name: store, key: key}}}"
    )
    handle = start(job, base=tmp_path, output=tmp_path)
    assert [task.state for task in handle.result(timeout=limit_s(120))] == ["succeeded"]


def test_an_engine_is_asked_whether_it_answers_before_the_run_and_not_in_it(tmp_path, monkeypatch):
    program = tmp_path / "bin/docker"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $1 >> {tmp_path}/asked\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    job = parse_job("{name: x, command: [a], environment: {image: i, pull: never}}")
    tarmac.run(job, base=tmp_path, output=tmp_path)
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:2] == ["version", "run"]
    assert asked.count("version") == 1


def test_a_run_at_work_on_another_machine_is_running_and_asked_to_end_by_a_file(tmp_path):
    job = parse_job("{name: x, command: a}")
    run = create_run(job, tmp_path, [*plan_tasks(job, tmp_path)], tmp_path)
    elsewhere = {"pid": 1, "start_ticks": 1, "boot_id": "b", "host": "elsewhere"}
    (run.path / "runner.json").write_text(json.dumps(elsewhere))
    assert read_status(run.path).state == "interrupted"
    # On a shared file system its lock speaks for it.
    with reserved(run.path):
        status = read_status(run.path)
        assert (status.state, status.runner, status.elsewhere.host) == (
            "running",
            None,
            "elsewhere",
        )
        assert Handle(run.path).cancel()
        assert is_asked_to_end(run.path, ProcessIdentity(**elsewhere))
        # A later runner of the same run is not meant.
        assert not is_asked_to_end(run.path, ProcessIdentity(**elsewhere | {"start_ticks": 2}))


def test_a_pipeline_at_work_on_another_machine_is_asked_to_end_too(tmp_path):
    job = Job(name="p", pipeline={"name": "p", "nodes": [{"nodeName": "a"}]})
    run = create_run(job, tmp_path, (), tmp_path)
    elsewhere = {"pid": 1, "start_ticks": 1, "boot_id": "b", "host": "elsewhere"}
    (run.path / "runner.json").write_text(json.dumps(elsewhere))
    with reserved(run.path):
        assert Handle(run.path).cancel()
        assert is_asked_to_end(run.path, ProcessIdentity(**elsewhere))


def test_the_state_of_a_pipeline_is_what_its_record_says_and_not_its_tasks(tmp_path):
    job = Job(name="p", pipeline={"name": "p", "nodes": [{"nodeName": "a"}]})
    run = create_run(job, tmp_path, (), tmp_path)
    lines = [
        {"event": "started", "task": 0, "name": "a", "attempt": 1, "directory": "instances/0000-a"},
        {
            "event": "ended",
            "task": 0,
            "name": "a",
            "outcome": "failed",
            "reason": "x",
            "seconds": 1,
        },
    ]
    (run.path / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_status(run.path).state == "interrupted"
    with reserved(run.path):
        assert read_status(run.path).state == "running"
    note_outcome(run.path, "succeeded", "")
    status = read_status(run.path)
    assert (status.state, status.num_tasks, status.count("failed")) == ("succeeded", 1, 1)
    assert [task.directory for task in status.tasks] == [run.path / "instances/0000-a"]
    note_outcome(run.path, "failed", "its time is over")
    with pytest.raises(JobFailed, match="its time is over"):
        Handle(run.path).result()


@pytest.mark.parametrize("damage", ["directory", "pipe", "bytes"])
def test_a_damaged_note_of_a_runner_that_is_gone_is_nobodys(tmp_path, damage):
    job = parse_job("{name: x, command: [a]}")
    run = create_run(job, tmp_path, [*plan_tasks(job, tmp_path)], tmp_path)
    note = run.path / "runner.json"
    if damage == "directory":
        note.mkdir()
    elif damage == "pipe":
        os.mkfifo(note)
    else:
        note.write_bytes(b"\xff{")
    assert read_status(run.path).state == "interrupted"
    with reserved(run.path), pytest.raises(TarmacError, match=r"runner\.json"):
        read_status(run.path)
