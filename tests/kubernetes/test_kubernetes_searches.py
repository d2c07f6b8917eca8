"""A search by workers on Kubernetes: the same trials as here, whatever ends a worker's pod."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import tarmac
from gated_searches import SPACE, results, search_here, steps, waiting, write_gated
from tarmac.studies import Study, Workers
from waiting import wait_until

# Each begins half a dozen Pythons with PyTorch, and tests run beside it.
pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

# What ends a worker's pod. One that is evicted is told to end, and so is one that is preempted.
ENDS = {
    "preempted": lambda cluster, pod: cluster.preempt(pod["metadata"]["name"]),
    "lost with its node": lambda cluster, pod: cluster.nodes.remove(pod["spec"]["nodeName"]),
}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The results of the same search on this machine."""
    return search_here(tmp_path_factory.mktemp("local"))


@pytest.fixture
def place(start_cluster):
    """Return a cluster of two nodes, and a directory of the volume that its pods share."""
    cluster = start_cluster(nodes=2, capacity={"cpu": "4", "memory": "8Gi"})
    shared = cluster.claim("runs")
    return cluster, shared


def search(cluster, shared):
    options = {
        "kubeconfig": str(cluster.kubeconfig),
        "image": "registry.example/train:7",
        "volume": {"claim": "runs", "path": str(shared)},
        "python": sys.executable,
    }
    workers = Workers(on="kubernetes", count=3, options={"kubernetes": options})
    workload = f"{shared}/gated.py:gated"
    return tarmac.search(workload, space=SPACE, method="brute", cluster=workers, output=shared)


def wait_for(is_so, searching, what):
    def end_of_search():
        return f"the search has ended: {searching.result()}" if searching.done() else None

    wait_until(is_so, what, seconds=300, unless=end_of_search)


@pytest.mark.parametrize("what", ENDS)
def test_a_trial_whose_worker_is_gone_goes_on_from_its_checkpoint_and_counts_once(
    what, place, local, monkeypatch
):
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    cluster, shared = place
    write_gated(shared)
    # In the second epoch of two, of 19 steps each.
    (shared / "gate").write_text("25")
    with ThreadPoolExecutor(1) as threads:
        searching = threads.submit(search, cluster, shared)
        try:
            wait_for(lambda: waiting(shared), searching, "a network that waits")
            host = waiting(shared)[0].partition(":")[0]
            (pod,) = [pod for pod in cluster.pods() if pod["metadata"]["name"].startswith(host)]
            ENDS[what](cluster, pod)
            wait_for(lambda: len(waiting(shared)) == 2, searching, "its second training")
        finally:
            (shared / "gate").unlink()
        study = searching.result(timeout=300)
    expected, best = local
    assert results(Study.open(study.path)) == expected
    assert (study.best.number, study.best.test_accuracy) == (best.number, best.test_accuracy)
    assert steps(shared) == [0, 19]
    # What was lost was begun again by the run that it was of; there are no others.
    (job,) = (study.path / "cluster").glob("*/job-run.json")
    assert json.loads(job.read_text())["num_tasks"] == 3
