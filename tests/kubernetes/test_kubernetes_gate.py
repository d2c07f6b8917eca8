"""`check: quick` on Kubernetes: a node whose GPU is not fit is avoided."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest

from tarmac.executors.kubernetes import KubernetesExecutor
from tarmac.jobs import Silent, Site, parse_job, plan_tasks, run_tasks

pytestmark = pytest.mark.kubernetes

# In the place of a Python with Tarmac, as nothing can be computed on a stand-in's GPU.
_CHECK = """\
#!/bin/sh
test "$*" = "-P -m tarmac.checks.pod_gpus 1" || exit 9
case $TARMAC_KUBERNETES_NODE in
  n1) echo looked; echo "GPU 0: uncorrected memory errors"; exit CODE ;;
esac
"""


class Progress(Silent):
    """Keeps how tasks end, and why attempts are repeated."""

    def __init__(self):
        self.ends = {}
        self.retries = []

    def retrying(self, task, reason, delay_s):
        self.retries.append(reason)

    def ended(self, ended):
        self.ends[ended.task.name] = ended


@pytest.fixture
def run_gated(start_cluster, tmp_path, monkeypatch):
    """Return a function that runs a task of one GPU whose first node's check ends as given."""
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    cluster = start_cluster(nodes=2, capacity={"nvidia.com/gpu": "2", "cpu": "8", "memory": "8Gi"})
    run = tmp_path / "run"
    (run / "tasks").mkdir(parents=True)
    # A pod has a /tmp of its own.
    image = tempfile.TemporaryDirectory(dir="/var/tmp")

    def take(code, job="{name: x, command: 'echo $TARMAC_ATTEMPT', resources: {gpus: 1}}"):
        python = Path(image.name, "python")
        python.write_text(_CHECK.replace("CODE", str(code)))
        python.chmod(0o755)
        given = {
            "kubeconfig": str(cluster.kubeconfig),
            "image": "python:3.12-slim",
            "check": "quick",
            "python": str(python),
        }
        parsed = parse_job(job).model_copy(update={"options": {"kubernetes": given}})
        tasks = [*plan_tasks(parsed, tmp_path)]
        site = Site(tasks=tasks, run=run, base=tmp_path, shared=run / "shared", fake_gpus=2)
        progress = Progress()
        with contextlib.closing(KubernetesExecutor(site)) as executor:
            run_tasks(tasks, run, executor, progress)
        return progress

    take.run, take.cluster = run, cluster
    with image:
        yield take


def test_a_task_whose_node_has_a_bad_gpu_is_done_on_another_and_no_retry_is_spent(run_gated):
    progress = run_gated(4)
    assert progress.ends["x"].outcome == "succeeded", progress.ends["x"].reason
    (reason,) = progress.retries
    assert reason.startswith(
        "its node has a GPU that is not fit: GPU 0: uncorrected memory errors; this session "
        "avoids n1 from now on"
    )
    (stdout,) = run_gated.run.glob("tasks/*/stdout")
    assert stdout.read_text() == "2\n"


def test_an_image_without_tarmac_is_no_fault_of_its_node(run_gated):
    progress = run_gated(1)
    end = progress.ends["x"]
    assert (end.outcome, end.cause) == ("failed", "start")
    assert "its preparation (check) ended with exit code 1: GPU 0: uncorrected" in end.reason
    assert not progress.retries


def test_a_task_without_gpus_has_nothing_checked(run_gated):
    progress = run_gated(4, "{name: x, command: 'true'}")
    assert progress.ends["x"].outcome == "succeeded"
    assert not progress.retries


def test_a_bad_gpu_on_one_of_several_nodes_ends_the_attempt_on_all(run_gated):
    run_gated.cluster.nodes.add("n3", capacity={"nvidia.com/gpu": "2", "cpu": "8"})
    job = """
        name: x
        command: 'echo $NODE_RANK of $NNODES in $TARMAC_ATTEMPT on $TARMAC_KUBERNETES_NODE'
        resources: {nodes: 2, gpus: 1}
        """
    progress = run_gated(4, job)
    assert progress.ends["x"].outcome == "succeeded", progress.ends["x"].reason
    assert progress.retries
    assert all("GPU 0: uncorrected memory errors" in reason for reason in progress.retries)
    said = [path.read_text().split() for path in run_gated.run.glob("tasks/*/stdout*")]
    assert sorted(words[0] for words in said) == ["0", "1"]
    # No program ran where the GPU is bad.
    assert "n1" not in {words[-1] for words in said}
