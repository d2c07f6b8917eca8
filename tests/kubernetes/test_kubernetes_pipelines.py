"""HKube's pipelines on Kubernetes: hosted in its pods, disturbed, and gone on with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tarmac.executors.queueing import Patience
from tarmac.formats import read_the_job
from tarmac.hkube import Silent, prepare_pipeline, work_on_pipeline
from tarmac.jobs import create_run
from waiting import wait_until

WITHIN_S = 120.0

# Notes that it was called, waits for a gate where the test has one, and doubles its first input.
_DOUBLE = """
import json, os, pathlib, sys, time
(first,) = json.load(open(os.environ["TARMAC_INPUT"]))
here = pathlib.Path(sys.argv[1])
with open(here / "calls", "a") as calls:
    calls.write(f"{first}\\n")
while (here / "gated").exists() and not (here / "gate").exists():
    time.sleep(0.05)
json.dump(first * 2 + len(os.environ.get("KEY", "")), open(os.environ["TARMAC_RESULT"], "w"))
"""

_SUM = """
import json, os
(numbers,) = json.load(open(os.environ["TARMAC_INPUT"]))
json.dump(sum(numbers), open(os.environ["TARMAC_RESULT"], "w"))
"""

PIPELINE = {
    "name": "numbers",
    "nodes": [
        {"nodeName": "double", "algorithmName": "double", "input": ["#@flowInput.numbers"]},
        {"nodeName": "add", "algorithmName": "add", "input": ["@double"]},
    ],
    "flowInput": {"numbers": [1, 2, 3]},
}


def definition(name: str, *command: str, **more: object) -> dict:
    own = {"protocol": "plain", "command": [*command], **more}
    return {"name": name, "cpu": 0.5, "mem": "256Mi", "options": {"tarmac": own}}


class Numbers:
    """A pipeline that doubles numbers and adds up, in a directory that a cluster's pods see."""

    def __init__(self, cluster, settings: Path) -> None:
        self.cluster = cluster
        self.shared = cluster.claim("runs")
        self.options = {
            "kubeconfig": str(cluster.kubeconfig),
            "image": "registry.example/hkube:7",
            # The image has no Tarmac where this machine has its own.
            "python": sys.executable,
            "volume": {"claim": "runs", "path": str(self.shared)},
            "runner": {"service_account": "runner"},
        }
        self.settings = settings
        self.settings.write_text(
            "[kubernetes]\n"
            + "".join(f"{key} = {_toml(value)}\n" for key, value in self.options.items())
        )
        double = definition("double", sys.executable, "-c", _DOUBLE, str(self.shared))
        self.define(double, definition("add", sys.executable, "-c", _SUM))
        self.write(PIPELINE)

    def define(self, *definitions: dict) -> None:
        (self.shared / "algorithms").mkdir(exist_ok=True)
        for value in definitions:
            path = self.shared / "algorithms" / f"{value['name']}.json"
            path.write_text(json.dumps(value))

    def write(self, pipeline: dict) -> None:
        (self.shared / "pipeline.json").write_text(json.dumps(pipeline))

    @property
    def calls(self) -> Counter[str]:
        path = self.shared / "calls"
        return Counter(path.read_text().split() if path.exists() else ())

    def touch(self, name: str) -> None:
        (self.shared / name).touch()

    def command(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        with self.started(*words, **variables) as running:
            out, err = running.communicate(timeout=180)
        return subprocess.CompletedProcess(words, running.returncode, out, err)

    def started(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        own = {
            "TARMAC_SETTINGS_FILE": str(self.settings),
            "TARMAC_RUNS": str(self.shared / "all"),
            "PYTHONUNBUFFERED": "1",
        }
        return subprocess.Popen(
            [sys.executable, "-m", "tarmac", *words],
            cwd=self.shared,
            env=os.environ | own | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def work(self, act, **options: object):
        """Run it in this process, and do something as it goes; return its end and what it told."""
        job = read_the_job(
            self.shared / "pipeline.json",
            environment={},
            folders=[self.shared / "algorithms"],
        ).model_copy(update={"options": {"kubernetes": {**self.options, **options}}})
        prepare_pipeline(job, self.shared, executor="kubernetes")
        run = create_run(job, self.shared, (), self.shared / "all", executor="kubernetes")
        told = Told(act)
        return work_on_pipeline(run, told), told


class Told(Silent):
    """Keeps why attempts were made again, and does what a test wants to be done as it goes."""

    def __init__(self, act) -> None:
        self.again, self.attempts, self._act = [], {}, act

    def retrying(self, work, reason, delay_s):
        self.again.append(reason)

    def ended(self, ending):
        self.attempts[ending.work.name] = ending.attempts

    def waited(self):
        self._act()


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(part)}" for key, part in value.items()) + "}"
    return json.dumps(value)


RUN = ("run", "pipeline.json", "--algorithms", "algorithms", "--on", "kubernetes")


@pytest.fixture
def numbers(start_cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    cluster = start_cluster(nodes=2, tls=True, capacity={"cpu": "4", "memory": "8Gi"})
    return Numbers(cluster, tmp_path / "settings.toml")


def wait_for(is_so, what: str):
    return wait_until(is_so, what, seconds=WITHIN_S)


@pytest.mark.kubernetes
def test_a_pipeline_runs_in_pods(numbers):
    done = numbers.command(*RUN, "--result", "result.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((numbers.shared / "result.json").read_text())[0]["result"] == 12
    assert numbers.calls == {"1": 1, "2": 1, "3": 1}
    assert not numbers.cluster.pods()


@pytest.mark.kubernetes
def test_a_pod_is_the_container_of_an_algorithm_that_has_an_image(numbers):
    image = {"image": "registry.example/own:1"}
    program = sys.executable, "-c", _DOUBLE, str(numbers.shared)
    numbers.define(definition("double", *program, environment=image))
    images = []

    def look():
        for pod in numbers.cluster.pods():
            images.extend(part["image"] for part in pod["spec"]["containers"])

    end, _ = numbers.work(look)
    assert (end.outcome, end.results[0]["result"]) == ("succeeded", 12)
    assert {*images} == {"registry.example/own:1", "registry.example/hkube:7"}


def test_without_a_volume_or_a_command_it_is_refused_in_words(numbers):
    numbers.settings.write_text(
        f'[kubernetes]\nkubeconfig = "{numbers.cluster.kubeconfig}"\nimage = "x"\n'
    )
    refused = numbers.command(*RUN)
    assert refused.returncode == 2
    assert "on Kubernetes no volume holds that directory" in refused.stderr
    assert 'volume = {claim = "runs", path = "/runs"}' in refused.stderr
    volume = f"{{claim: runs, path: {numbers.shared}}}"
    numbers.define({"name": "double", "algorithmImage": "registry.example/own:1"})
    refused = numbers.command(*RUN, "--set", f"options.kubernetes.volume={volume}")
    assert refused.returncode == 2
    assert "algorithm double has no command" in refused.stderr
    assert "environment: {image: registry.example/own:1}, command: " in refused.stderr
    assert not numbers.cluster.requests.count("POST", "jobs")


def once(condition, act):
    """Return what does something once a condition is met, and never again."""
    done = []

    def look():
        if not done and condition():
            done.append(True)
            act()

    return look


def test_a_pod_that_is_evicted_is_followed_by_another_and_spends_no_retry(numbers):
    numbers.touch("gated")
    pipeline = json.loads(json.dumps(PIPELINE))
    pipeline["flowInput"]["numbers"] = [5]
    pipeline["nodes"][0]["retry"] = {"policy": "Never"}
    numbers.write(pipeline)

    def evict():
        (pod,) = numbers.cluster.pods()
        numbers.cluster.evict(pod["metadata"]["name"])
        numbers.touch("gate")

    end, told = numbers.work(once(lambda: numbers.calls["5"], evict))
    assert (end.outcome, end.results[0]["result"]) == ("succeeded", 10), end.reason
    assert told.attempts == {"double[1]": 2, "add": 1}
    (reason,) = told.again
    assert "evicted" in reason


@pytest.mark.kubernetes
def test_a_task_whose_node_is_lost_is_done_on_another(numbers, monkeypatch):
    monkeypatch.setattr("tarmac.kubernetes.pods.LOST_NODE_S", 0.5)
    hasty = Patience(record_s=2.0, success_s=5.0)
    monkeypatch.setattr("tarmac.executors.kubernetes.kind.Patience", lambda: hasty)
    numbers.touch("gated")
    pipeline = json.loads(json.dumps(PIPELINE))
    pipeline["flowInput"]["numbers"] = [5]
    numbers.write(pipeline)

    def kill():
        (pod,) = numbers.cluster.pods()
        numbers.cluster.nodes.kill(pod["spec"]["nodeName"])
        numbers.touch("gate")

    end, told = numbers.work(once(lambda: numbers.calls["5"], kill))
    assert (end.outcome, end.results[0]["result"]) == ("succeeded", 10), end.reason
    assert told.attempts["double[1]"] == 2
    assert len(told.again) == 1


def test_a_killed_runner_is_followed_by_one_that_does_nothing_twice(numbers):
    numbers.touch("gated")
    with numbers.started(*RUN) as running:
        wait_for(lambda: numbers.calls.total() == 3, "all are at work")
        running.kill()
        running.communicate(timeout=WITHIN_S)
    numbers.touch("gate")
    again = numbers.command("run", "--resume", "latest")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "4 succeeded" in again.stdout
    assert numbers.calls == {"1": 1, "2": 1, "3": 1}


@pytest.mark.kubernetes
def test_a_submitted_pipelines_runner_is_a_pod_and_its_secrets_are_the_clusters(numbers):
    numbers.cluster.create_secret("store", key="hunter2hunter2")
    double = definition("double", sys.executable, "-c", _DOUBLE, str(numbers.shared))
    reference = {"secretKeyRef": {"name": "store", "key": "key"}}
    numbers.define(double | {"algorithmEnv": {"KEY": reference}})
    made = numbers.command("submit", *RUN[1:], "--json")
    assert made.returncode == 0, made.stderr
    (row,) = json.loads(made.stdout)
    assert row["runner_job"].endswith("-runner-1")

    def state() -> str:
        (shown,) = json.loads(numbers.command("ps", "--all", "--json").stdout)
        return shown["state"]

    wait_for(lambda: state() in ("succeeded", "failed"), "it has ended")
    result = json.loads(Path(row["path"], "result.json").read_text())
    assert result["data"][0]["result"] == 12 + 3 * len("hunter2hunter2")
    for path in numbers.shared.rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path
