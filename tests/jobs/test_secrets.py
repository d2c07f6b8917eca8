"""Secrets reach the tasks that ask for them, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_run import Watcher

import tarmac
from tarmac.errors import RequestError
from tarmac.jobs import (
    RunRequest,
    Secret,
    create_run,
    parse_job,
    prepare,
    read_secret_mapping,
    task_directory,
    work_on,
)
from tarmac.tasks.secrets import resolve_secrets


def test_a_task_sees_its_own_secrets_and_no_source_of_anothers(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_A", "hunter2-a")
    monkeypatch.setenv("SOURCE_B", "hunter2-b")
    monkeypatch.setenv("PLAIN", "everybody's")
    job = parse_job(
        """
        name: x
        tasks:
          - {name: a, command: env, secrets: {A: {env: SOURCE_A}}}
          - {name: b, command: env, secrets: {B: {name: s, key: k}}}
          - {name: none, command: env}
        """
    )
    request = RunRequest(secrets={"s/k": Secret(env="SOURCE_B")})
    tasks = prepare(job, tmp_path, request)
    run = create_run(job, tmp_path, tasks, tmp_path / "runs")
    assert work_on(run, Watcher(), request) == {"succeeded": 3}
    seen = {}
    for task in tasks:
        printed = (task_directory(run.path, task) / "stdout").read_text()
        seen[task.name] = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    assert seen["a"]["A"] == "hunter2-a"
    assert seen["b"]["B"] == "hunter2-b"
    assert "hunter2-b" not in seen["a"].values()
    assert "hunter2-a" not in seen["b"].values()
    assert not [value for value in seen["none"].values() if "hunter2" in value]
    assert {variables["PLAIN"] for variables in seen.values()} == {"everybody's"}


def test_a_secrets_file_is_beside_the_job_file(tmp_path, monkeypatch):
    (tmp_path / "job").mkdir()
    (tmp_path / "job/key").write_text("swordfish\n")
    monkeypatch.chdir(tmp_path)
    found = resolve_secrets({"A": Secret(file="key")}, {}, {}, tmp_path / "job")
    assert found == {"A": "swordfish"}
    job = parse_job("{name: x, command: a, secrets: {A: {file: key}}}")
    assert prepare(job, tmp_path / "job")
    with pytest.raises(RequestError, match="secret for A: key: No such file"):
        prepare(job, tmp_path)


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\r", "\n\n"])
def test_the_end_of_a_secrets_line_is_no_part_of_it(tmp_path, ending):
    (tmp_path / "key").write_bytes(f"swordfish{ending}".encode())
    assert resolve_secrets({"A": Secret(file="key")}, {}, {}, tmp_path) == {"A": "swordfish"}


@pytest.mark.parametrize(
    ("file", "reason"), [("/dev/zero", "has more than 1 MiB"), ("nul", "has a zero byte")]
)
def test_a_file_that_can_be_no_secret_is_refused_before_the_start(tmp_path, file, reason):
    (tmp_path / "nul").write_bytes(b"a\0b")
    job = parse_job(f"{{name: x, command: a, secrets: {{A: {{file: {file}}}}}}}")
    with pytest.raises(RequestError, match=f"secret for A: {file}: {reason}"):
        prepare(job, tmp_path)


def test_a_file_of_the_users_configuration_is_beside_it(tmp_path, monkeypatch):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/secrets.toml").write_text('"s/k" = { file = "key" }\n')
    monkeypatch.chdir(tmp_path)
    mapping = read_secret_mapping(Path("config/secrets.toml"))
    assert mapping["s/k"].file == str(tmp_path / "config/key")


def test_a_name_that_stands_for_another_name_is_refused(tmp_path):
    job = parse_job("{name: x, command: a}")
    with pytest.raises(RequestError, match="secret s/k: expected a variable or a file"):
        tarmac.submit(job, output=tmp_path, secrets={"s/k": Secret(name="t", key="k")})
    assert not list(tmp_path.iterdir())
