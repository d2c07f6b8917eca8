"""Trainings over two nodes of Kubernetes, and a search by workers there."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import tarmac
from tarmac.executors.kubernetes import KubernetesExecutor
from tarmac.jobs import Silent, Site, plan_tasks, run_tasks, training_job
from tarmac.runs import Run
from tarmac.studies import Study

pytestmark = pytest.mark.kubernetes

FAULTY = f"{Path(__file__).parents[1] / 'training' / 'faulty.py'}:faulty"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Run:
    """Return the training of two replicas in one process, which nothing happens to."""
    output = tmp_path_factory.mktemp("undisturbed")
    return tarmac.train(FAULTY, devices="cpu:2", strategy="towers", output=output)


@pytest.fixture
def two_nodes(start_cluster, tmp_path):
    """Return a cluster of two nodes, a directory of its volume, and the options for both."""
    cluster = start_cluster(nodes=2, capacity={"cpu": "4", "memory": "8Gi"})
    shared = cluster.claim("runs")
    options = {
        "kubeconfig": str(cluster.kubeconfig),
        "image": "registry.example/train:7",
        "volume": {"claim": "runs", "path": str(shared)},
        # The image has no Tarmac where this machine has its own.
        "python": sys.executable,
    }
    return cluster, shared, options


def on_kubernetes(options, tmp_path, *words):
    """Run a command of Tarmac's, whose settings say which cluster."""
    settings = tmp_path / "settings.toml"
    volume = options["volume"]
    lines = [f'{name} = "{value}"' for name, value in options.items() if name != "volume"]
    settings.write_text(
        "\n".join(
            [
                "[kubernetes]",
                *lines,
                "[kubernetes.volume]",
                *(f'{k} = "{v}"' for k, v in volume.items()),
            ]
        )
    )
    return subprocess.run(
        [sys.executable, "-m", "tarmac", *words, "--on", "kubernetes"],
        env=os.environ | {"TARMAC_SETTINGS_FILE": str(settings)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def assert_same(run: Run, undisturbed: Run) -> None:
    ours, theirs = load_file(run.model), load_file(undisturbed.model)
    for name, value in ours.items():
        assert torch.allclose(value, theirs[name], rtol=0, atol=1e-6), name


def test_the_command_line_trains_over_two_nodes(two_nodes, tmp_path, undisturbed):
    _, shared, options = two_nodes
    words = ("train", FAULTY, "--nodes", "2", "--devices", "cpu", "--output", str(shared))
    done = on_kubernetes(options, tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (found.parent for found in shared.glob("*/run.json"))
    assert f"run {path}" in done.stdout
    assert_same(Run.open(path), undisturbed)


class Evicting(Silent):
    """Evicts a rank's pod once, when a rank has come to where it hangs."""

    def __init__(self, cluster, hangs, rank):
        self.ends, self.retries = {}, []
        self._hangs, self._cluster, self._rank, self._is_done = hangs, cluster, rank, False

    def retrying(self, task, reason, delay_s):
        self.retries.append(reason)

    def ended(self, ended):
        self.ends[ended.task.name] = ended

    def waited(self):
        if not self._is_done and self._hangs.exists():
            self._is_done = True
            names = [pod["metadata"]["name"] for pod in self._cluster.pods()]
            (name,) = [name for name in names if f"-{self._rank}-" in name]
            self._cluster.evict(name)


def test_an_evicted_rank_begins_all_again_from_the_checkpoint(
    two_nodes, tmp_path, undisturbed, monkeypatch
):
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    cluster, shared, options = two_nodes
    trainings = shared / "trainings"
    job = training_job(FAULTY, ["--devices=cpu"], output=trainings, nodes=2)
    # Rank 0 waits in the second epoch, until its node's pod or the other's is evicted.
    faults = {"FAULT": "0:30:hang", "FAULT_ONCE": str(shared / "once")}
    changes = {"env": {**job.env, **faults}, "options": {"kubernetes": options}}
    tasks = [*plan_tasks(job.model_copy(update=changes), tmp_path)]
    run = shared / "run"
    (run / "tasks").mkdir(parents=True)
    progress = Evicting(cluster, shared / "once", rank=1)
    site = Site(tasks=tasks, run=run, base=tmp_path, shared=run / "shared")
    with contextlib.closing(KubernetesExecutor(site)) as executor:
        run_tasks(tasks, run, executor, progress)
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2), end.reason
    assert len(progress.retries) == 1
    assert "node 1: it was evicted" in progress.retries[0]
    (path,) = (found.parent for found in trainings.glob("*/run.json"))
    run = Run.open(path)
    assert len(run.record.sessions) == 2
    assert [row["epoch"] for row in run.history] == [1, 2, 3]
    assert_same(run, undisturbed)


def test_workers_of_a_search_train_each_network_once(two_nodes, tmp_path):
    _, shared, options = two_nodes
    words = ["search", "digits-mlp", "--set", "hidden=8,16,32", "--method", "brute"]
    words += ["--epochs", "1", "--workers", "2", "--output", str(shared)]
    done = on_kubernetes(options, tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by workers on kubernetes, 2 at most" in done.stdout
    (path,) = shared.glob("*/study.json")
    trials = Study.open(path.parent).trials
    assert sorted(int(row["params"]["hidden"]) for row in trials) == [8, 16, 32]
    assert {row["state"] for row in trials} == {"complete"}
