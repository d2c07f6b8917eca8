"""A site that keeps accounts: its limits are kept to, and daemons that are down change nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from tarmac.jobs import Began, Waiting, read_journal
from waiting import wait_until

SETTINGS = ("AccountingStorageEnforce=limits",)
CLUSTER = {
    "cpus": 8,
    "accounting": True,
    "accounts": {"plenty": (), "few": ("MaxSubmitJobs=20",)},
}

TARMAC = [sys.executable, "-m", "tarmac"]

# A busy machine takes longer, and a passing test does not wait.
WITHIN_S = 90.0

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(
        not shutil.which("slurmdbd"), reason="no accounts are kept here; apt install slurmdbd"
    ),
]


def wait_for(is_so, what: str) -> None:
    wait_until(is_so, what, seconds=WITHIN_S)


def lines_of(path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_user_who_may_have_few_jobs_has_all_done_without_asking_often(runs, wrapped):
    calls = wrapped("sbatch", 'exec $REAL "$@"')
    progress = runs(
        """
        name: x
        resources: {cpus: 0.1, memory: 10MiB}
        sweep: {repeat: 100}
        command: 'echo $TARMAC_TASK_INDEX >> ../../../../seen'
        options: {slurm: {account: few}}
        """
    )
    assert {(end.outcome, end.attempts) for end in progress.ends.values()} == {("succeeded", 1)}
    assert sorted(map(int, runs.lines("seen"))) == [*range(100)]
    assert any("AssocMaxSubmitJobLimit" in event.reason for event in progress.of(Waiting))
    # A hundred are tried, then halves of it until they are taken, then the limit is closed in on,
    # 3 + 6 times at most; else no less than a quarter of the limit goes at once.
    assert len(lines_of(calls)) <= 25


def test_a_controller_that_is_down_changes_nothing_and_ps_says_since_when(
    on_cluster, tmp_path, monkeypatch
):
    monkeypatch.setenv("TARMAC_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    gate, begun = tmp_path / "gate", tmp_path / "begun"
    (tmp_path / "job.yaml").write_text(
        f"""
        name: x
        resources: {{cpus: 8}}
        sweep: {{repeat: 3}}
        command: 'echo $TARMAC_TASK_INDEX >> {begun}; until [ -e {gate} ]; do sleep 0.1; done'
        """
    )

    def ps(*words: str) -> str:
        return subprocess.run(
            [*TARMAC, "ps", *words], capture_output=True, text=True, check=True
        ).stdout

    with subprocess.Popen([*TARMAC, "run", "job.yaml", "--on", "slurm"]) as runner:
        try:
            wait_for(lambda: len(lines_of(begun)) == 2, "two are at work")
            on_cluster.end_daemon("slurmctld")
            try:
                wait_for(lambda: "3 tasks: squeue: " in ps(), "ps says who is silent")
                (line,) = [line for line in ps().splitlines() if "squeue: " in line]
                (row,) = json.loads(ps("--json"))
            finally:
                on_cluster.start_daemon("slurmctld")
            wait_for(lambda: "squeue: " not in ps(), "ps says nothing of it any more")
            gate.touch()
            assert runner.wait(WITHIN_S) == 0
        finally:
            runner.kill()
    assert "Unable to contact slurm controller" in line
    assert "since " in line
    assert sorted(task["state"] for task in row["tasks"]) == ["queued", "running", "running"]
    (run,) = (tmp_path / "runs").iterdir()
    journal = [*read_journal(run / "journal.jsonl")]
    ends = [event for event in journal if event["event"] == "ended"]
    assert [(end["outcome"], end["attempts"]) for end in ends] == [("succeeded", 1)] * 3
    assert not [event for event in journal if event["event"] in ("retried", "requeued")]
    assert sorted(lines_of(begun)) == ["0", "1", "2"]


def test_ends_are_told_by_the_controller_where_the_accounts_are_down(runs, cluster):
    done = []

    def act(progress) -> None:
        if done or len(progress.of(Began)) < 3:
            return
        done.append(True)
        (killed,) = runs.run.glob("tasks/*-killed/attempt-1.json")
        os.kill(json.loads(killed.read_text())["process"]["pid"], signal.SIGKILL)
        (cancelled,) = runs.run.glob("tasks/*-cancelled/attempt-1.json")
        cluster.run("scancel", json.loads(cancelled.read_text())["engine_id"])
        runs.wrote("gate").touch()

    cluster.end_daemon("slurmdbd")
    try:
        progress = runs(
            """
            name: x
            resources: {cpus: 1}
            tasks:
              - {name: good, command: 'until [ -e ../../../../gate ]; do sleep 0.1; done'}
              - {name: killed, command: '[ $TARMAC_ATTEMPT != 1 ] || sleep 600'}
              - {name: cancelled, command: [sleep, '600']}
            """,
            act,
        )
    finally:
        cluster.start_daemon("slurmdbd")
    ends = {name: (end.outcome, end.cause, end.attempts) for name, end in progress.ends.items()}
    assert ends == {
        "good": ("succeeded", None, 1),
        "killed": ("succeeded", None, 2),
        "cancelled": ("failed", "cancelled", 1),
    }
    ((name, reason),) = progress.retries
    assert name == "killed"
    assert "its agent ended without a result: Slurm says FAILED (signal 9)" in reason
