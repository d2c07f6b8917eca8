"""Runners that are pods of the cluster: submitted, found again, begun again, refused in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from emulator.kinds import JOB, SECRET

from waiting import wait_until

pytestmark = pytest.mark.kubernetes

WITHIN_S = 120.0


@pytest.fixture
def tarmac(start_cluster, tmp_path):
    """Return a function that runs Tarmac for a cluster, where pods see the directory of runs."""
    cluster = start_cluster(tls=True, capacity={"cpu": "8", "memory": "8Gi"})
    shared = cluster.claim("runs")
    settings = tmp_path / "settings.toml"
    settings.write_text(f"""
        [kubernetes]
        kubeconfig = "{cluster.kubeconfig}"
        image = "registry.example/train:7"
        python = "{sys.executable}"
        volume = {{claim = "runs", path = "{shared}"}}
        runner = {{service_account = "runner"}}
        """)
    job = shared / "job.yaml"

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tarmac", *arguments],
            cwd=shared,
            env=os.environ
            | {"TARMAC_SETTINGS_FILE": str(settings), "TARMAC_RUNS": str(shared / "all")}
            | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )

    run.cluster, run.job, run.shared, run.settings = cluster, job, shared, settings
    return run


def state_of(tarmac) -> str:
    (row,) = json.loads(tarmac("ps", "--all", "--json").stdout)
    return row["state"]


def wait_for(is_so, what: str):
    return wait_until(is_so, what, seconds=WITHIN_S)


def runner_pods(cluster):
    return [pod for pod in cluster.pods() if "tarmac.dev/runner" in pod["metadata"]["labels"]]


def test_a_submitted_run_is_worked_on_by_a_pod_and_its_secrets_are_in_no_file(tarmac):
    tarmac.job.write_text(
        "{name: x, command: 'test ${#SECRET} = 14', sweep: {repeat: 3}, "
        "secrets: {SECRET: {env: KEY}}}"
    )
    made = tarmac("submit", "job.yaml", "--on", "kubernetes", "--json", KEY="hunter2hunter2")
    assert made.returncode == 0, made.stderr
    (row,) = json.loads(made.stdout)
    run = Path(row["path"])
    wait_for(lambda: state_of(tarmac) == "succeeded", f"the run has succeeded: {run}")
    assert row["runner_job"].endswith("-runner-1")
    # The machine that has submitted it has made the runner's Job, and its pod all the others.
    names = [
        job["metadata"]["name"] for job in tarmac.cluster.store.list(JOB, tarmac.cluster.namespace)
    ]
    assert names == [row["runner_job"]]
    for path in tarmac.shared.rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path
    # What it was given goes with its Job.
    tarmac.cluster.delete(JOB, row["runner_job"], propagation="Background")
    wait_for(
        lambda: not tarmac.cluster.store.list(SECRET, tarmac.cluster.namespace),
        "its Secret is gone",
    )


def test_a_runner_whose_pod_is_evicted_goes_on_and_runs_nothing_twice(tarmac):
    tarmac.job.write_text("{name: x, command: 'echo once; sleep 6; echo twice', timeout: 60}")
    made = tarmac("submit", "job.yaml", "--on", "kubernetes", "--json")
    (row,) = json.loads(made.stdout)
    run = Path(row["path"])
    wait_for(lambda: [*run.glob("tasks/*/stdout")], "the task has begun")
    (pod,) = runner_pods(tarmac.cluster)
    tarmac.cluster.evict(pod["metadata"]["name"])
    wait_for(lambda: state_of(tarmac) == "succeeded", f"the run has succeeded: {run}")
    (stdout,) = run.glob("tasks/*/stdout")
    assert stdout.read_text() == "once\ntwice\n"
    assert len([*run.glob("tasks/*/attempt-*.json")]) == 1


def test_a_cancelled_runner_ends_its_tasks_and_itself(tarmac):
    tarmac.job.write_text("{name: x, command: 'exec sleep 600', timeout: 15m}")
    made = tarmac("submit", "job.yaml", "--on", "kubernetes", "--json")
    (row,) = json.loads(made.stdout)
    run = Path(row["path"])
    wait_for(lambda: [*run.glob("tasks/*/attempt-1.json")], "the task has begun")
    assert tarmac("cancel", row["path"]).returncode == 0
    wait_for(lambda: state_of(tarmac) not in ("running", "queued"), "the run has ended")
    wait_for(
        lambda: (
            not tarmac.cluster.pods()
            or all(
                pod["status"].get("phase") in ("Succeeded", "Failed")
                for pod in tarmac.cluster.pods()
            )
        ),
        "no pod is at work",
    )


def test_a_run_with_tasks_on_another_cluster_is_not_handed_to_a_runner_here(tarmac):
    tarmac.job.write_text("{name: x, command: 'true'}")
    assert tarmac("submit", str(tarmac.job), "--on", "kubernetes").returncode == 0
    (run,) = (tarmac.shared / "all").iterdir()
    wait_for(lambda: state_of(tarmac) == "succeeded", "the end of the run")
    (chunk,) = (run / "chunks").glob("*.json")
    record = json.loads(chunk.read_text())
    record["cluster"]["uid"] = "another"
    chunk.write_text(json.dumps({**record, "state": "submitted"}))
    handed = tarmac("run", "--resume", str(run), "--runner", "engine")
    assert handed.returncode == 2, handed.stdout
    expected = f"are on the Kubernetes cluster another, and this is {tarmac.cluster.url}"
    assert expected in handed.stderr


def test_why_a_runner_has_not_begun_is_said(tarmac):
    text = tarmac.settings.read_text()
    tarmac.settings.write_text(
        text.replace("[kubernetes]", '[kubernetes]\n        image_pull_secrets = ["hub"]').replace(
            "registry.example/train:7", "missing.invalid/train:7"
        )
    )
    tarmac.job.write_text("{name: x, command: 'true'}")
    made = tarmac("submit", "job.yaml", "--on", "kubernetes", "--json")
    assert made.returncode == 0, made.stderr
    wait_for(
        lambda: "missing.invalid/train:7" in tarmac("ps", "--all", "--json").stdout,
        "the image is said",
    )
    (row,) = json.loads(made.stdout)
    assert tarmac("cancel", row["path"]).returncode == 0
    wait_for(
        lambda: not tarmac.cluster.store.list(JOB, tarmac.cluster.namespace), "its Job is gone"
    )


def test_a_run_beside_the_volume_is_refused_with_what_to_do(tarmac, tmp_path):
    tarmac.job.write_text("{name: x, command: 'true'}")
    words = ("submit", "job.yaml", "--on", "kubernetes", "--output", str(tmp_path / "here"))
    refused = tarmac(*words)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert f"is not below {tarmac.shared}" in refused.stderr
    assert "--runner here" in refused.stderr
