"""What instances of algorithms find in their environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from pools import define

from tarmac.formats import read_algorithm
from tarmac.hkube.hosting.environment import Folders, hosted_task, plain_task
from tarmac.hkube.hosting.images import fetching_task, ready_to_start
from tarmac.jobs import plan_tasks


def task_of(algorithm, make=hosted_task):
    (template,) = plan_tasks(algorithm.job, Path())
    address = (("127.0.0.1", 1234),) if make is hosted_task else ()
    return make(algorithm, template, 7, Folders(Path("/run/instances/7")), *address)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"mem": "1Gi"}, {"DISCOVERY_MAX_CACHE_SIZE": "205"}),
        ({"mem": "1Gi", "reservedMemory": "512Mi"}, {"DISCOVERY_MAX_CACHE_SIZE": "512"}),
        ({"mem": "1000Mi", "env": "java"}, {"JAVA_DERIVED_MEMORY": "800"}),
        ({"options": {"opengl": True}}, {"DISPLAY": ":0", "NVIDIA_DRIVER_CAPABILITIES": "all"}),
        ({"entryPoint": "a/main.py"}, {"ALGORITHM_ENTRY_POINT": "a/main.py"}),
        ({"algorithmEnv": {"CLUSTER_NAME": "mine"}}, {"CLUSTER_NAME": "mine"}),
        ({"algorithmEnv": {"WORKER_SOCKET_PORT": "1"}}, {"WORKER_SOCKET_PORT": "1234"}),
    ],
)
def test_a_definition_sets_what_hkube_would_inject(fields, expected):
    env = task_of(define(**fields)).env
    assert {name: env.get(name) for name in expected} == expected


def image(**environment):
    own = {"environment": {"image": "i", **environment}}
    return read_algorithm({"name": "alg", "options": {"tarmac": own}})


def test_a_container_sees_its_folders_where_hkubes_pods_have_them():
    task = task_of(image())
    assert {(mount.target, mount.source) for mount in task.environment.mounts} == {
        ("/var/metrics", "/run/instances/7/metrics"),
        ("/var/tmp/fs/storage", "/run/instances/7/storage"),
    }
    assert task.env["ALGO_METRICS_DIR"] == "/var/metrics"


def test_a_plain_container_sees_its_files_and_no_worker():
    task = task_of(image(), plain_task)
    assert task.env["TARMAC_INPUT"] == "/var/tarmac/input.json"
    assert task.env["TARMAC_RESULT"] == "/var/tarmac/result.json"
    assert not [name for name in task.env if name.startswith("WORKER_")]


@pytest.mark.parametrize(
    ("environment", "has_worker", "network"),
    [({}, True, "host"), ({}, False, None), ({"network": "mine"}, True, "mine")],
)
def test_a_container_with_a_worker_shares_the_machines_network_unless_told_otherwise(
    environment, has_worker, network
):
    (template,) = plan_tasks(image(**environment).job, Path())
    ready = ready_to_start(template, has_worker=has_worker)
    assert (ready.environment.network, ready.environment.pull) == (network, "never")


@pytest.mark.parametrize(
    ("pull", "words"),
    [("missing", "|| exec"), ("always", " pull i"), ("never", "image inspect")],
)
def test_an_image_is_fetched_as_its_definition_says(pull, words, tmp_path, monkeypatch):
    engine = tmp_path / "docker"
    engine.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (template,) = plan_tasks(image(pull=pull).job, Path())
    assert words in " ".join(fetching_task(template, iter([3])).command)
    (system,) = plan_tasks(define().job, Path())
    assert fetching_task(system, iter([3])) is None
