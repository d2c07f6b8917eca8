"""What executors do beyond what all promise, which `tarmac.testing.executors` checks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from tarmac.cli.commands.run import command
from tarmac.errors import RequestError, TarmacError
from tarmac.jobs import (
    Attempt,
    Busy,
    LocalExecutor,
    executor_names,
    find_executor,
    parse_job,
    plan_tasks,
    read_machine,
)
from tarmac.processes.handles import has_ended
from tarmac.testing.executors import EXECUTOR_CHECKS, ExecutorCase
from waiting import limit_s, wait_until


def local(base: Path) -> LocalExecutor:
    return LocalExecutor(read_machine(), base, base / "shared", secret_variables={"VAULT"})


def quick(base: Path) -> LocalExecutor:
    """Grants little time to what is asked to end."""
    return LocalExecutor(read_machine(), base, base / "shared", grace_s=0.1)


EXECUTORS = {"local": local}


@pytest.fixture(params=EXECUTORS)
def executor(request, tmp_path):
    with contextlib.closing(EXECUTORS[request.param](tmp_path)) as opened:
        yield opened


@pytest.fixture
def attempts(tmp_path):
    """Return a function that makes first attempts of a job's tasks."""

    def make(text: str, number: int = 1) -> list[Attempt]:
        job = parse_job(textwrap.dedent(text))
        return [
            Attempt(task, number, tmp_path / f"attempt-{task.index}")
            for task in plan_tasks(job, tmp_path)
        ]

    return make


def begin(executor, attempt):
    (answer,) = executor.start([attempt])
    return not isinstance(answer, Busy)


def finish(executor, attempts):
    """Start attempts as there is room, and return how each ended, by its task's name."""
    left, ends = [*attempts], {}
    while len(ends) < len(attempts):
        while left and begin(executor, left[0]):
            left.pop(0)
        for finished in executor.wait(limit_s(60)):
            assert finished.attempt.task.name not in ends
            ends[finished.attempt.task.name] = finished
    return ends


@pytest.mark.parametrize(
    "needs",
    [
        "inputs: [{{from: '{url}'}}]",
        "environment: {{requirements: ['six @ {url}/six-1.0-py3-none-any.whl']}}",
    ],
    ids=["download", "installer"],
)
def test_stopping_ends_a_preparation_with_all_that_it_has_started(
    executor, attempts, slow_server, trace, needs
):
    needs = needs.format(url=slow_server.url)
    (attempt,) = attempts(f"{{name: x, command: 'true', {needs}}}")
    assert begin(executor, attempt)
    assert slow_server.begun.wait(limit_s(120))
    started = trace.processes()
    executor.stop()
    (end,) = executor.wait(limit_s(60))
    assert (end.outcome, end.reason) == ("interrupted", "the run was stopped")
    executor.close()
    _, alive = psutil.wait_procs(started, timeout=limit_s(60))
    assert not alive
    assert not trace.processes()


def test_stopping_forgets_preparations_that_have_not_begun(executor, attempts, slow_server):
    text = "{name: x, command: 'true', sweep: {repeat: 9}, resources: {cpus: 0.01}, "
    every = attempts(text + f"inputs: [{{from: '{slow_server.url}'}}]}}")
    for attempt in every:
        assert begin(executor, attempt)
    assert slow_server.begun.wait(limit_s(60))
    executor.stop()
    ends = []
    while len(ends) < len(every):
        ends += executor.wait(limit_s(60))
    assert {end.outcome for end in ends} == {"interrupted"}


def test_outputs_that_do_not_get_through_are_given_up_when_the_run_is_stopped(
    tmp_path, attempts, slow_server, monkeypatch
):
    pytest.importorskip("obstore", reason="needs pip install 'tarmac-gpu[objects]'")
    monkeypatch.setenv("AWS_ENDPOINT_URL", slow_server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    (attempt,) = attempts(
        "{name: x, command: echo > out, outputs: [{path: out, to: 's3://bucket/made'}]}"
    )
    with contextlib.closing(quick(tmp_path)) as local:
        assert begin(local, attempt)
        while not slow_server.begun.is_set():
            assert local.wait(0.05) == []
        local.stop()
        (end,) = local.wait(limit_s(60))
    assert (end.outcome, end.exit_code) == ("interrupted", 0)
    assert end.reason == "the run was stopped before its outputs were kept"


@pytest.mark.parametrize("gone", ['"$PWD"', '"${PWD%/work}"'])
def test_a_task_that_takes_its_directory_away_has_failed_and_others_go_on(executor, attempts, gone):
    ends = finish(
        executor,
        attempts(
            f"""
            name: x
            resources: {{cpus: 0.01}}
            tasks:
              - {{name: gone, command: 'rm -rf {gone}; exit 4'}}
              - {{name: other, command: 'true'}}
            """
        ),
    )
    assert (ends["gone"].outcome, ends["gone"].reason) == ("failed", "exit code 4")
    assert ends["other"].outcome == "succeeded"


def test_a_stop_after_the_end_of_a_program_leaves_it_its_success(executor, attempts):
    (attempt,) = attempts("{name: x, command: 'echo $$'}")
    assert begin(executor, attempt)
    printed = attempt.directory / "stdout"
    wait_until(printed.read_text, "the number of its program")
    # Its own parent waits for it, so it is there until the executor looks.
    wait_until(lambda: has_ended(int(printed.read_text())), "the end of its program")
    executor.stop()
    (end,) = executor.wait(limit_s(60))
    assert end.outcome == "succeeded"


@pytest.mark.parametrize("check", EXECUTOR_CHECKS)
def test_the_local_executor_conforms(check, tmp_path):
    check(ExecutorCase(find_executor("local"), tmp_path))


PLUGIN = """
import dataclasses
from tarmac.jobs import find_executor

LOCAL = find_executor("local")


def open_noted(site):
    (site.base / "noted").write_text(str(len(site.tasks)))
    return LOCAL.open(site)


NOTED = dataclasses.replace(LOCAL, name="noted", title="here, with a note", open=open_noted)
NONE = 17
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Install a package that provides executors; return its directory."""
    site = tmp_path / "site"
    (site / "noting-1.dist-info").mkdir(parents=True)
    (site / "noting-1.dist-info/METADATA").write_text("Name: noting\nVersion: 1\n")
    (site / "noting-1.dist-info/entry_points.txt").write_text(
        "[tarmac.executors]\nnoted = noting:NOTED\nnone = noting:NONE\ngone = noting:GONE\n"
    )
    (site / "noting.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(site)
    return site


def test_packages_provide_executors_that_on_offers(plugin):
    assert executor_names() == ("local", "slurm", "kubernetes", "ray", "gone", "none", "noted")
    shown = CliRunner().invoke(command, ["--help"]).output
    assert "[local|slurm|kubernetes|ray|gone|none|noted]" in shown
    assert find_executor("noted").title == "here, with a note"
    with pytest.raises(RequestError, match="unknown executor 'notde'"):
        find_executor("notde")
    with pytest.raises(TarmacError, match="noting:NONE is of type int, expected ExecutorKind"):
        find_executor("none")
    with pytest.raises(TarmacError, match="'gone' of noting:GONE failed to load"):
        find_executor("gone")


def test_a_run_stays_with_its_executor_when_it_is_resumed(plugin, tmp_path):
    (tmp_path / "job.yaml").write_text("{name: x, command: test -e now}")
    environment = os.environ | {"PYTHONPATH": f"{plugin}:{os.environ.get('PYTHONPATH', '')}"}

    def tarmac(*words):
        return subprocess.run(
            [sys.executable, "-m", "tarmac", "run", "--output", str(tmp_path / "runs"), *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    assert tarmac("job.yaml", "--on", "noted").returncode == 1
    (tmp_path / "noted").unlink()
    (record,) = (tmp_path / "runs").glob("*/job-run.json")
    assert json.loads(record.read_text())["executor"] == "noted"
    assert tarmac("--resume", "latest").returncode == 1
    assert (tmp_path / "noted").read_text() == "1"
