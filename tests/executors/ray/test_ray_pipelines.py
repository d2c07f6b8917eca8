"""HKube's pipelines on a real Ray: hosted on its nodes, and on another where one is lost."""

from __future__ import annotations

import json
import sys

import pytest
from ray_in_process import Node as RayNode

from tarmac.formats import read_the_job
from tarmac.hkube import Silent, prepare_pipeline, work_on_pipeline
from tarmac.jobs import create_run

HEAD = {"num_cpus": 0, "num_gpus": 0}
NODES = ({"num_cpus": 2, "node_name": "one"}, {"num_cpus": 2, "node_name": "two"})

# Notes where it is; the first one stays until its node is lost.
_DOUBLE = """
import json, os, pathlib, signal, sys
(first,) = json.load(open(os.environ["TARMAC_INPUT"]))
calls = pathlib.Path(sys.argv[1])
is_first = not calls.exists()
with calls.open("a") as file:
    file.write(f"{first}\\n")
if is_first and sys.argv[2:] == ["stay"]:
    signal.pause()
json.dump(first * 2, open(os.environ["TARMAC_RESULT"], "w"))
"""

_SUM = """
import json, os
(numbers,) = json.load(open(os.environ["TARMAC_INPUT"]))
json.dump(sum(numbers), open(os.environ["TARMAC_RESULT"], "w"))
"""


class Told(Silent):
    """Keeps where attempts began and why others followed; acts as time passes."""

    def __init__(self, act) -> None:
        self.hosts, self.again, self._act = [], [], act

    def started(self, work, attempt, directory, gpus, host=""):
        self.hosts.append((work.name, host))

    def retrying(self, work, reason, delay_s):
        self.again.append(reason)

    def waited(self):
        self._act(self)


@pytest.fixture
def numbers_on(tmp_path):
    """Return a function that runs a pipeline which doubles numbers and adds up, by its options."""

    def run(options, numbers, *more, act=lambda told: None):
        for name, command in {
            "double": (sys.executable, "-c", _DOUBLE, str(tmp_path / "calls"), *more),
            "add": (sys.executable, "-c", _SUM),
        }.items():
            ours = {"protocol": "plain", "command": command}
            value = {"name": name, "cpu": 0.5, "options": {"tarmac": ours}}
            (tmp_path / f"{name}.json").write_text(json.dumps(value))
        nodes = [
            {"nodeName": "double", "algorithmName": "double", "input": ["#@flowInput.numbers"]},
            {"nodeName": "add", "algorithmName": "add", "input": ["@double"]},
        ]
        pipeline = {"name": "numbers", "nodes": nodes, "flowInput": {"numbers": numbers}}
        (tmp_path / "pipeline.json").write_text(json.dumps(pipeline))
        job = read_the_job(tmp_path / "pipeline.json", environment={}, folders=[tmp_path])
        job = job.model_copy(update={"options": options})
        prepare_pipeline(job, tmp_path, executor="ray")
        told = Told(act)
        made = create_run(job, tmp_path, (), tmp_path / "runs", executor="ray")
        return work_on_pipeline(made, told), told

    return run


@pytest.mark.ray
def test_a_pipeline_runs_on_rays_nodes(numbers_on, cluster, tmp_path):
    end, told = numbers_on(cluster.options, [1, 2, 3])
    assert (end.outcome, end.results[0]["result"]) == ("succeeded", 12), end.reason
    assert sorted((tmp_path / "calls").read_text().split()) == ["1", "2", "3"]
    assert {host for _, host in told.hosts} <= {"one", "two"}


@pytest.mark.ray
def test_a_task_whose_node_is_lost_is_done_on_another(numbers_on, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    killed = []

    def kill(told):
        if not killed and told.hosts and (tmp_path / "calls").exists():
            killed.append(told.hosts[0][1])
            cluster.kill_node(killed[0])

    end, told = numbers_on(cluster.options, [5], "stay", act=kill)
    assert (end.outcome, end.results[0]["result"]) == ("succeeded", 10), end.reason
    (reason,) = told.again
    assert "node" in reason
    assert [name for name, _ in told.hosts] == ["double[1]", "double[1]", "add"]
    assert killed[0] not in {host for _, host in told.hosts[1:]}


def test_a_pipeline_whose_node_is_lost_adds_up_on_another_in_this_process(
    numbers_on, in_process, tmp_path, monkeypatch
):
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    ray = in_process(RayNode("one", cpus=1), RayNode("two", cpus=1))
    killed = []

    def kill(told):
        # The first to begin stays.
        if not killed and told.hosts and (tmp_path / "calls").exists():
            killed.append("one")
            ray.kill_node("one")

    options = {"ray": {"address": ray.head.address}}
    end, told = numbers_on(options, [5], "stay", act=kill)
    assert (end.outcome, end.results[0]["result"]) == ("succeeded", 10), end.reason
    assert told.again == ["its node was lost: gone"]
    assert told.hosts == [("double[1]", "one"), ("double[1]", "two"), ("add", "two")]
    assert ray.held == []
