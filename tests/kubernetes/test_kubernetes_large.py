"""What tasks are told, where it is more than one ConfigMap takes."""

from __future__ import annotations

import base64
import contextlib
import json
import random

import pytest
from emulator.kinds import CONFIG_MAP

from tarmac.executors.kubernetes import KubernetesExecutor
from tarmac.jobs import Silent, Site, parse_job, plan_tasks, run_tasks

pytestmark = pytest.mark.kubernetes

# What gzip cannot shorten, and a variable of a program may hold.
LARGE = base64.b64encode(random.Random(0).randbytes(75_000)).decode()


class Progress(Silent):
    """Keeps how tasks end, and the largest ConfigMap that was there meanwhile."""

    def __init__(self, cluster):
        self.cluster, self.ends, self.sizes = cluster, [], {}

    def ended(self, ended):
        self.ends.append(ended)

    def waited(self):
        for thing in self.cluster.store.list(CONFIG_MAP, self.cluster.namespace):
            values = (thing.get("binaryData") or {}).values()
            size = sum(len(base64.b64decode(value)) for value in values)
            self.sizes[thing["metadata"]["name"]] = size


@pytest.fixture
def run_job(cluster, tmp_path):
    """Return a function that takes a job's tasks to their ends and returns what was told."""
    run = tmp_path / "run"
    (run / "tasks").mkdir(parents=True)

    def take(job):
        given = {"kubeconfig": str(cluster.kubeconfig), "image": "python:3.12-slim"}
        options = {"options": {"kubernetes": given}}
        tasks = [*plan_tasks(parse_job(json.dumps(job)).model_copy(update=options), tmp_path)]
        site = Site(tasks=tasks, run=run, base=tmp_path, shared=run / "shared", fake_gpus=0)
        progress = Progress(cluster)
        with contextlib.closing(KubernetesExecutor(site)) as executor:
            run_tasks(tasks, run, executor, progress)
        return progress

    take.run = run
    return take


def test_tasks_that_are_too_much_for_one_job_go_as_several(run_job):
    job = {"name": "x", "command": "echo ${#LARGE}", "env": {"LARGE": LARGE}}
    told = run_job(job | {"sweep": {"repeat": 8}})
    assert [end.outcome for end in told.ends] == ["succeeded"] * 8
    outputs = [path.read_text() for path in run_job.run.glob("tasks/*/stdout")]
    assert outputs == [f"{len(LARGE)}\n"] * 8
    assert len([*run_job.run.glob("tasks/*/attempt-*.json")]) == 8
    assert len(told.sizes) > 1
    assert max(told.sizes.values()) <= 2**20


def test_a_task_that_is_too_much_alone_fails_with_what_to_do(run_job, cluster):
    env = {f"LARGE{number}": LARGE for number in range(8)}
    (end,) = run_job({"name": "x", "command": "true", "env": env}).ends
    assert (end.outcome, end.cause) == ("failed", "start")
    assert "a ConfigMap takes 1 MiB" in end.reason
    assert "options.kubernetes.volume" in end.reason
    assert not cluster.requests.count("POST", "jobs")
