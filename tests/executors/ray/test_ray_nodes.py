"""Attempts on several nodes of Ray, held together by a placement group."""

from __future__ import annotations

import json
import os
import signal
import sys

import psutil
import pytest
import ray
from ray.util import placement_group_table

from tarmac.jobs import Began

pytestmark = pytest.mark.ray

HEAD = {"num_cpus": 0, "num_gpus": 0}
NODES = tuple({"num_cpus": 2, "num_gpus": 1, "node_name": f"n{n}"} for n in (1, 2, 3))

MEET = """
import os, socket, sys
rank, port = int(os.environ["TARMAC_NODE_RANK"]), int(os.environ["MASTER_PORT"])
print(rank, os.environ["TARMAC_NODES"], os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
if rank == 0:
    with socket.create_server(("", port)) as server:
        connection, _ = server.accept()
        connection.sendall(b"hello")
else:
    while True:
        try:
            connection = socket.create_connection((os.environ["MASTER_ADDR"], port))
            break
        except ConnectionRefusedError:
            pass
    print(connection.recv(5).decode())
"""

STAYS = """
import os, signal, sys
rank = os.environ["TARMAC_NODE_RANK"]
with open(sys.argv[1], "a") as file:
    print(os.environ["TARMAC_ATTEMPT"], rank, os.getpid(), os.getppid(), file=file)
if os.environ["TARMAC_ATTEMPT"] == "1":
    signal.pause()
"""


def on_two(script, *arguments):
    return json.dumps(
        {
            "name": "x",
            "command": [sys.executable, "-c", script, *arguments],
            "resources": {"cpus": 1, "gpus": 1, "nodes": 2},
        }
    )


@pytest.fixture
def killed(cluster):
    """Collect the names of nodes that a test kills; others take their places after it."""
    names = []
    yield names
    for name in names:
        cluster.add_node(num_cpus=2, num_gpus=1, node_name=f"{name}-again")


def held_groups():
    return [one for one in placement_group_table().values() if one["state"] != "REMOVED"]


def test_programs_on_two_nodes_find_each_other(runs):
    progress = runs(on_two(MEET))
    (end,) = progress.ends.values()
    assert end.outcome == "succeeded", end
    (began,) = progress.of(Began)
    directory = began.attempt.directory
    assert (directory / "stdout").read_text() == "0 2 0\n"
    assert (directory / "stdout.node-1").read_text() == "1 2 0\nhello\n"
    assert not held_groups()


def test_the_loss_of_one_node_ends_the_attempt_on_all_and_the_next_has_others(
    runs, tmp_path, until
):
    killed = []

    def kill(progress):
        lines = runs.lines("pids")
        if not killed and len(lines) == 2:
            agents = {line.split()[1]: int(line.split()[3]) for line in lines}
            killed.append(agents["1"])
            os.kill(agents["1"], signal.SIGKILL)

    progress = runs(on_two(STAYS, str(tmp_path / "pids")), kill)
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2), end
    assert len(progress.retries) == 1
    assert "(node 1)" in progress.retries[0]
    attempts = [line.split()[:2] for line in runs.lines("pids")]
    assert sorted(attempts) == [["1", "0"], ["1", "1"], ["2", "0"], ["2", "1"]]
    assert not held_groups()
    until(lambda: ray.available_resources().get("GPU") == 3, "what the group held is not free")


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_node_that_is_killed_gets_the_attempt_another_group(runs, cluster, killed, until, rank):
    def kill(progress):
        lines = runs.lines("pids")
        if not killed and len(lines) == 2:
            agents = {line.split()[1]: int(line.split()[3]) for line in lines}
            killed.append(cluster.kill_node_of(agents[rank]))

    progress = runs(on_two(STAYS, str(runs.directory / "pids")), kill)
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2), end
    (reason,) = progress.retries
    assert "lost" in reason or "gone" in reason, reason
    assert end.host not in killed
    pids = [int(line.split()[2]) for line in runs.lines("pids")]
    until(lambda: not any(map(psutil.pid_exists, pids)), "a program goes on")
    assert not held_groups()
    until(lambda: ray.available_resources().get("GPU") == 2, "what the group held is not free")
