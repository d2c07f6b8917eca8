"""A server that falls silent, and a runner that is killed, while many Jobs go on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
from emulator.kinds import JOB

from tarmac.executors.events import Waiting
from tarmac.executors.kubernetes import KubernetesExecutor
from tarmac.jobs import Silent, Site, parse_job, plan_tasks, run_tasks
from waiting import wait_until

pytestmark = pytest.mark.kubernetes

WITHIN_S = 120.0


class Progress(Silent):
    """Keeps what a run tells, and acts each time that it waits."""

    def __init__(self, act):
        self.ends, self.reasons, self.act = {}, [], act

    def told(self, event):
        if isinstance(event, Waiting):
            self.reasons.append(event.reason)

    def ended(self, ended):
        assert ended.task.name not in self.ends
        self.ends[ended.task.name] = ended

    def waited(self):
        self.act()


@pytest.fixture
def run_job(cluster, tmp_path, monkeypatch):
    """Return a function that takes a job's tasks to their ends; answers are waited for briefly."""
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    monkeypatch.setattr("tarmac.kubernetes.connection._ANSWER_S", 1.0)
    run = tmp_path / "run"
    (run / "tasks").mkdir(parents=True)

    def take(job, act):
        given = {"kubeconfig": str(cluster.kubeconfig), "image": "python:3.12-slim"}
        options = {"options": {"kubernetes": given}}
        tasks = [*plan_tasks(parse_job(job).model_copy(update=options), tmp_path)]
        site = Site(tasks=tasks, run=run, base=tmp_path, shared=run / "shared", fake_gpus=0)
        progress = Progress(act)
        with contextlib.closing(KubernetesExecutor(site)) as executor:
            run_tasks(tasks, run, executor, progress)
        return progress

    take.run = run
    return take


def jobs_made(cluster):
    """Return how many Jobs were asked for in earnest."""
    entries = [*cluster.requests.entries]
    made = [it for it in entries if (it.verb, it.resource) == ("create", "jobs")]
    return sum("dryRun" not in it.path for it in made)


def phases(cluster):
    return [pod["status"].get("phase") for pod in cluster.pods()]


@pytest.mark.parametrize("verb", ["", "create", "delete"])
def test_a_server_that_says_nothing_for_a_while_loses_no_task(verb, run_job, cluster):
    state = {"silent": None}

    def fall_silent():
        cluster.faults.silence(1000, verb=verb)
        cluster.faults.cut_watches()
        state["silent"] = True

    def act():
        if state["silent"] is None and "Running" in phases(cluster):
            fall_silent()
        elif state["silent"] and cluster.faults.num_taken > 1:
            # One was given up, and another is held.
            cluster.faults.clear()
            state["silent"] = False

    if verb == "create":
        fall_silent()

    told = run_job("{name: x, command: 'echo once; sleep 2; echo twice', sweep: {repeat: 3}}", act)
    assert state["silent"] is False
    assert {(end.outcome, end.reason, end.attempts) for end in told.ends.values()} == {
        ("succeeded", "", 1)
    }
    outputs = [path.read_text() for path in run_job.run.glob("tasks/*/stdout")]
    assert outputs == ["once\ntwice\n"] * 3
    assert not cluster.store.list(JOB, cluster.namespace)


def test_a_second_runner_takes_over_what_has_ended_what_runs_and_what_has_not_begun(
    cluster, tmp_path
):
    job, runs = tmp_path / "job.yaml", tmp_path / "runs"
    job.write_text(
        "name: x\n"
        "command: 'echo begun {{n}}; test {{n}} = 0 || sleep 8; echo ended {{n}}; exit {{n}}'\n"
        "sweep: {grid: {n: [0, 3, 4]}}\n"
    )
    runs.mkdir()
    command = [
        *(sys.executable, "-m", "tarmac", "run", str(job), "--on", "kubernetes"),
        *("--output", str(runs)),
        *("--set", f"options.kubernetes.kubeconfig={cluster.kubeconfig}"),
        *("--set", "options.kubernetes.image=python:3.12-slim"),
    ]
    with (
        (tmp_path / "said").open("w") as said,
        subprocess.Popen(command, start_new_session=True, stdout=said, stderr=said) as runner,
    ):
        wait_until(
            lambda: phases(cluster).count("Running") >= 2 and [*runs.glob("*/tasks/*/stdout")],
            "two pods that run and the output of one that has ended",
            seconds=WITHIN_S,
            unless=lambda: None if runner.poll() is None else (tmp_path / "said").read_text(),
        )
        os.killpg(runner.pid, signal.SIGKILL)
    # All of them end while nobody looks.
    wait_until(
        lambda: not {"Running", "Pending"} & {*phases(cluster)},
        "the end of all pods",
        seconds=WITHIN_S,
    )
    made = jobs_made(cluster)
    assert made > 0
    (run,) = [path for path in runs.iterdir() if path.is_dir()]
    again = [sys.executable, "-m", "tarmac", "run", "--resume", str(run), "--on", "kubernetes"]
    resumed = subprocess.run(again, capture_output=True, text=True, check=False, timeout=180)
    assert resumed.returncode == 1, resumed.stderr
    assert jobs_made(cluster) == made
    outputs = sorted(path.read_text() for path in run.glob("tasks/*/stdout"))
    assert outputs == [f"begun {n}\nended {n}\n" for n in (0, 3, 4)]
    ends = [json.loads(path.read_text()) for path in run.glob("tasks/*/attempt-*.json")]
    assert sorted(end["exit_code"] for end in ends) == [0, 3, 4]
    assert not cluster.store.list(JOB, cluster.namespace)
