"""A search by workers on a real Ray: the same trials as here, whatever ends a worker."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

import tarmac
from gated_searches import SPACE, results, search_here, steps, waiting, write_gated
from tarmac.studies import Study, Workers
from waiting import wait_until

# Each begins half a dozen Pythons with PyTorch, and tests run beside it.
pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

# Its workers are on the other nodes, one of which is killed.
HEAD = {"num_cpus": 0, "num_gpus": 0}
NODES = ({"num_cpus": 2, "node_name": "n1"}, {"num_cpus": 2, "node_name": "n2"})


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The results of the same search on this machine."""
    return search_here(tmp_path_factory.mktemp("local"))


def search(cluster, directory):
    workers = Workers(on="ray", count=3, options=cluster.options)
    workload = f"{directory}/gated.py:gated"
    return tarmac.search(workload, space=SPACE, method="brute", cluster=workers, output=directory)


def wait_for(is_so, searching, what):
    def end_of_search():
        return f"the search has ended: {searching.result()}" if searching.done() else None

    wait_until(is_so, what, seconds=300, unless=end_of_search)


def agent_of(pid, directory):
    """Return the agent of a program, and the node that it is on."""
    above = {each.pid: each for each in psutil.Process(pid).parents()}
    for path in directory.glob("*/cluster/*/tasks/*/attempt-*.json"):
        attempt = json.loads(path.read_text())
        if attempt["process"] and attempt["process"]["pid"] in above:
            return above[attempt["process"]["pid"]], attempt["host"]
    raise AssertionError(f"no attempt has the program {pid}")


@pytest.mark.parametrize("what", ["killed", "lost with its node"])
def test_a_trial_whose_worker_is_gone_goes_on_from_its_checkpoint_and_counts_once(
    what, cluster, tmp_path, local, monkeypatch
):
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    write_gated(tmp_path)
    # In the second epoch of two, of 19 steps each.
    (tmp_path / "gate").write_text("25")
    with ThreadPoolExecutor(1) as threads:
        searching = threads.submit(search, cluster, tmp_path)
        try:
            wait_for(lambda: waiting(tmp_path), searching, "a network that waits")
            agent, node = agent_of(int(waiting(tmp_path)[0].partition(":")[2]), tmp_path)
            if what == "killed":
                os.kill(agent.parent().pid, signal.SIGKILL)
            else:
                cluster.kill_node(node)
            wait_for(lambda: len(waiting(tmp_path)) == 2, searching, "its second training")
        finally:
            (tmp_path / "gate").unlink()
        study = searching.result(timeout=300)
    expected, best = local
    assert results(Study.open(study.path)) == expected
    assert (study.best.number, study.best.test_accuracy) == (best.number, best.test_accuracy)
    assert steps(tmp_path) == [0, 19]
    # What was lost was begun again by the run that it was of; there are no others.
    (job,) = (study.path / "cluster").glob("*/job-run.json")
    assert json.loads(job.read_text())["num_tasks"] == 3
