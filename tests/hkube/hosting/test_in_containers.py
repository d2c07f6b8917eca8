"""Algorithms in containers of a real Docker engine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pools import IMPATIENT, PROGRAM, each, make

from busybox import docker_engine
from tarmac.formats import read_algorithm

# Python and its packages as they are on this machine, for an image that has neither.
FOLDERS = ("/usr", "/lib", "/lib64", "/etc", sys.base_prefix, sys.prefix, str(PROGRAM.parent))


def define(image, *, command=(), own=(), environment=(), name="alg", **fields):
    mounts = [
        {"source": folder, "target": folder, "read_only": True}
        for folder in dict.fromkeys(FOLDERS)
        if Path(folder).is_dir()
    ]
    given = {"image": image, "mounts": mounts, **dict(environment)}
    options = {"tarmac": {"command": [*command], "environment": given, **dict(own)}}
    return read_algorithm({"name": name, "cpu": 1, "mem": "256Mi", "options": options, **fields})


def hosted(image, **fields):
    return define(image, command=[sys.executable, "-u", str(PROGRAM)], **fields)


@pytest.mark.containers
def test_an_algorithm_in_a_container_reaches_its_worker_as_in_a_pod(host, busybox_image, tmp_path):
    (ending,) = host([hosted(busybox_image)], each(make("environment")))
    assert ending.succeeded, ending
    seen = ending.value
    assert seen["ALGO_METRICS_DIR"] == "/var/metrics"
    assert seen["BASE_FS_ADAPTER_DIRECTORY"] == "/var/tmp/fs/storage"
    assert (tmp_path / "instances/000001-alg/metrics").is_dir()


@pytest.mark.containers
def test_a_container_that_takes_too_much_memory_is_named_so(host, busybox_image):
    algorithm = hosted(busybox_image, mem="64Mi")
    (ending,) = host([algorithm], each(make("eat", 2**28, retry="Never")))
    assert (ending.why, ending.exit_code) == ("memory", 137)
    assert "64 MiB" in ending.message


@pytest.mark.containers
def test_a_container_that_ignores_stop_is_killed(host, busybox_image):
    async def use(pool):
        late = await pool.submit(make("deaf", ttl_s=0.5))
        return late, await pool.submit(make("echo", 1, index=1))

    late, again = host([hosted(busybox_image)], use, timers=IMPATIENT)
    assert (late.why, again.value) == ("ttl", [1])


@pytest.mark.containers
def test_a_plain_program_in_a_container_reads_and_writes_files(host, busybox_image):
    algorithm = define(
        busybox_image,
        command=["sh", "-c", "cat $TARMAC_INPUT > $TARMAC_RESULT"],
        own={"protocol": "plain"},
        environment={"network": "none"},
    )
    (ending,) = host([algorithm], each(make({"a": "ü"}, 2)))
    assert ending.value == [{"a": "ü"}, 2], ending


def test_an_image_that_cannot_be_had_fails_all_tasks_of_its_algorithm_at_once(host):
    docker_engine()
    algorithm = define(
        "tarmac-none", command=["true"], environment={"pull": "never"}, own={"protocol": "plain"}
    )
    endings = host([algorithm], each(*(make(n, index=n) for n in range(3))))
    assert {(ending.why, ending.attempts) for ending in endings} == {("image", 0)}
    assert "image tarmac-none cannot be pulled: " in endings[0].message
    assert "No such image" in endings[0].message


@pytest.mark.containers
@pytest.mark.parametrize("network", ["none", "no-such-network"])
def test_a_network_that_cannot_reach_the_worker_is_refused(host, busybox_image, network):
    algorithm = hosted(busybox_image, environment={"network": network})
    (ending,) = host([algorithm], each(make("echo")))
    assert ending.why == "refused"
    assert "network" in ending.message
