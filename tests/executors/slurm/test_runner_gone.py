"""A run on Slurm ends when it is asked to, and goes on when its runner dies."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import CancelledError

import pytest
from click.testing import CliRunner

import tarmac
from tarmac.cli.commands import jobs as commands
from tarmac.errors import RequestError
from tarmac.jobs import Silent, attach, find_run, parse_job, read_journal, submit_runner, work_on
from waiting import wait_until

pytestmark = pytest.mark.slurm

CLUSTER = {"cpus": 4}


@pytest.fixture
def submitted(on_cluster, tmp_path):
    """Return a function that submits a job, and waits until its task has printed."""

    def submit(text: str):
        handle = tarmac.submit(parse_job(text), output=tmp_path / "runs", on="slurm")

        def has_printed() -> bool:
            begun = handle.status().tasks
            return bool(begun) and bool(handle.stdout(begun[0].name))

        def reason() -> str | None:
            return None if handle.running() else (handle.path / "runner.log").read_text()

        wait_until(has_printed, "a line of the task", seconds=90, unless=reason)
        return handle

    return submit


@pytest.fixture
def killed(submitted, tmp_path):
    """Return a function that submits a job, and kills its runner once its task has printed."""

    def submit_and_kill(text: str):
        handle = submitted(text)
        runner = handle.status().runner
        assert runner.send(signal.SIGKILL)
        # The kernel takes its lock and Slurm takes its job for its own a moment longer.
        wait_until(lambda: handle.status().state == "detached", "the end of the runner")
        return attach("latest", tmp_path / "runs")

    return submit_and_kill


def invoke(command, *words) -> str:
    result = CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def jobs_left() -> str:
    return subprocess.run(
        ["squeue", "--noheader", "--format=%i %j %T"], capture_output=True, text=True, check=True
    ).stdout


def test_it_is_listed_read_and_cancelled(killed):
    handle = killed("{name: x, command: 'echo at work; exec sleep 600'}")
    runs = handle.path.parent
    (row,) = json.loads(invoke(commands.ps, "--json", "--output", runs))
    (task,) = row["tasks"]
    assert (row["state"], row["runner_pid"], task["state"]) == ("detached", None, "running")
    assert task["host"].startswith("n")
    assert invoke(commands.logs, "latest", "--output", runs) == "at work\n"
    invoke(commands.cancel, "latest", "--output", runs)
    assert "RUNNING" not in jobs_left()
    (task,) = handle.status().tasks
    assert (handle.status().state, task.state) == ("interrupted", "interrupted")
    last = [*read_journal(handle.path / "journal.jsonl")][-1]
    assert (last["event"], last["cause"], last["attempts"]) == ("ended", "stop", 1)


def test_one_that_lives_ends_its_tasks_when_it_is_asked_to(submitted):
    handle = submitted("{name: x, command: 'echo at work; exec sleep 600'}")
    assert handle.cancel()
    with pytest.raises(CancelledError):
        handle.result(timeout=120)
    assert "RUNNING" not in jobs_left()
    assert [task.state for task in handle.status().tasks] == ["interrupted"]


def test_its_tasks_end_without_it_and_are_recorded_once_by_whoever_goes_on(killed, tmp_path):
    go = tmp_path / "go"
    handle = killed(
        f"{{name: x, command: 'echo at work; until [ -e {go} ]; do sleep 0.1; done; echo once'}}"
    )
    assert handle.running()
    go.touch()
    (task,) = handle.result(timeout=120)
    assert (task.state, task.attempt) == ("succeeded", 1)
    again = subprocess.run(
        [sys.executable, "-m", "tarmac", "run", "--resume", str(handle.path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert handle.stdout() == "at work\nonce\n"
    ends = [e for e in read_journal(handle.path / "journal.jsonl") if e["event"] == "ended"]
    assert [(end["outcome"], end["attempts"]) for end in ends] == [("succeeded", 1)]


def test_on_another_cluster_what_is_left_is_neither_ended_nor_taken_up(killed, cluster, wrapped):
    handle = killed("{name: x, command: 'echo; exec sleep 600'}")
    path = wrapped("scontrol", '"$REAL" "$@" | sed "/^ClusterName/s/tarmac/other/"').parent
    run = find_run(str(handle.path))
    acts = (handle.cancel, lambda: work_on(run, Silent()), lambda: submit_runner(run))
    for act in acts:
        with pytest.raises(RequestError, match="on the Slurm cluster tarmac, and this is other"):
            act()
    assert cluster.run("squeue", "-h", "-o", "%T").split() == ["RUNNING"]
    (path / "wrapped" / "scontrol").unlink()
    assert handle.cancel()
