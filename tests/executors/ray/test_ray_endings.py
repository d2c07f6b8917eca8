"""What Ray says, in words, and what tasks ask of nodes, in numbers."""

from __future__ import annotations

import socket

import pytest
from ray import exceptions

from tarmac.errors import RequestError
from tarmac.executors.ray.connection import Versions, connect, explain_versions
from tarmac.executors.ray.demand import Demand, RayNode, num_slots, why_never, why_waiting
from tarmac.executors.ray.says import ending_of, returned_ending
from tarmac.masking import remember

SMALL = RayNode("a1", "n1", {"CPU": 4, "GPU": 2, "memory": 8 * 2**30}, {"zone": "x"})
LARGE = RayNode("b2", "n2", {"CPU": 16, "GPU": 4, "memory": 64 * 2**30, "tape": 1})


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (exceptions.WorkerCrashedError(), "node"),
        (exceptions.NodeDiedError("gone"), "node"),
        (exceptions.ActorDiedError(), "node"),
        (exceptions.LocalRayletDiedError(), "node"),
        (exceptions.ObjectLostError("00" * 28, None, ""), "node"),
        (exceptions.OutOfMemoryError("61 of 64 GiB"), "evicted"),
        (exceptions.RuntimeEnvSetupError("no pip"), "start"),
        (exceptions.TaskUnschedulableError("no node"), "node"),
        (exceptions.TaskCancelledError(), "cancelled"),
        (exceptions.RaySystemError("odd"), "lost"),
        (KeyError("odd"), "lost"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_ray_raises_has_a_cause_in_words(error, cause):
    ending = ending_of(error, "n1")
    assert (ending.cause, ending.host) == (cause, "n1")
    assert ending.words


def test_a_full_node_is_the_nodes_doing_once_and_then_the_tasks_own():
    # As Ray 2.60 says it.
    full = exceptions.OutOfMemoryError(
        "1 worker(s) were killed due to the node running low on memory.\nMemory on the node "
        "(IP: 192.0.2.2, ID: 78f5) was 4.63GB used / 23.54GB limit (0.196652)."
    )
    first, second = ending_of(full), ending_of(full, is_first_time=False)
    assert (first.cause, second.cause) == ("evicted", "memory")
    words = "its node's memory was full (4.63GB of 23.54GB), and Ray ended "
    assert first.words == f"{words}the newest task there"
    assert second.words.startswith(
        f"{words}it for the second time: request the memory that it needs"
    )
    unknown = ending_of(exceptions.OutOfMemoryError("odd"))
    assert unknown.words == "its node's memory was full, and Ray ended the newest task there"


def test_an_error_of_a_worker_is_told_by_the_last_line_of_its_trace():
    trace = (
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 96, in perform\n'
        "OSError: [Errno 28] No space left on device\n"
    )
    cause = OSError(28, "No space left on device")
    raised = exceptions.RayTaskError("perform", trace, cause, "ray::tarmac x", 7, "192.0.2.2")
    for error in (raised, raised.as_instanceof_cause()):
        ending = ending_of(error)
        assert ending.cause == "start"
        assert ending.words == (
            "its agent was not started: OSError: [Errno 28] No space left on device"
        )


def test_an_agent_that_ended_without_a_result_is_told_with_its_last_words():
    assert returned_ending(0, "", "n1").cause is None
    ending = returned_ending(1, "no space left on device", "n1")
    assert (ending.cause, ending.words) == (
        "start",
        "its agent ended with exit code 1: no space left on device",
    )
    assert returned_ending(-9, "", "n1").words == "its agent ended with signal 9"


@pytest.mark.parametrize(
    ("demand", "slots"),
    [
        (Demand(cpus=1), 20),
        (Demand(cpus=0.1), 200),
        (Demand(cpus=1, gpus=0.5), 12),
        (Demand(cpus=1, gpus=4), 1),
        (Demand(cpus=1, resources={"tape": 1}), 1),
        (Demand(cpus=1, labels={"zone": "x"}), 4),
        (Demand(cpus=4, nodes=2), 2),
        (Demand(cpus=1, gpus=2, nodes=2), 1),
        (Demand(cpus=1, memory_bytes=8 * 2**30), 9),
        (Demand(cpus=0), 2),
    ],
)
def test_what_fits_is_counted(demand, slots):
    assert num_slots(demand, [SMALL, LARGE]) == slots
    assert not why_never(demand, [SMALL, LARGE])


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        (
            Demand(cpus=1, gpus=8),
            "it needs a node with 1 CPU, 8 GPUs; the largest has 4 GPUs",
        ),
        (
            Demand(cpus=1, gpus=4, nodes=2),
            "it needs 2 nodes with 1 CPU, 4 GPUs; 1 have that",
        ),
        (
            Demand(cpus=1, memory_bytes=100 * 2**30),
            "it needs a node with 1 CPU, 100.0 GiB of memory; the largest has 64.0 GiB of memory",
        ),
        (Demand(labels={"zone": "y"}), "none of 2 nodes has the labels zone=y"),
        (
            Demand(cpus=1, resources={"disk": 2}),
            "it needs a node with 1 CPU, 2 disk; the largest has 0 disk",
        ),
    ],
)
def test_what_never_fits_is_told_in_numbers(demand, words):
    assert num_slots(demand, [SMALL, LARGE]) == 0
    assert why_never(demand, [SMALL, LARGE]) == words


def test_waiting_is_told_with_what_is_free():
    nodes = [SMALL, LARGE]
    said = why_waiting(Demand(gpus=1), nodes, {"CPU": 3.0}, autoscaling=False)
    assert said == "waits for 1 CPU, 1 GPU (3 of 20 CPUs free, 0 of 6 GPUs free)"
    starts = why_waiting(Demand(), nodes, {"CPU": 3.0}, autoscaling=False)
    assert starts == "waits for Ray to start it; it needs 1 CPU (3 of 20 CPUs free)"
    grows = why_waiting(Demand(gpus=9), nodes, {}, autoscaling=True)
    assert grows.endswith("the largest has 4 GPUs; the cluster may grow")


def test_other_versions_are_named_on_both_sides():
    here, there = Versions("2.60.0", "3.11.7"), Versions("2.9.0", "3.10.1")
    assert explain_versions(here, here, "h:1") == ""
    assert explain_versions(here, there, "h:1") == (
        "the Ray cluster at h:1 is of another version: "
        "Ray 2.9.0 there, 2.60.0 here, Python 3.10.1 there, 3.11.7 here"
    )


def test_an_address_that_does_not_answer_or_is_no_heads_is_told_at_once(free_port):
    with pytest.raises(
        RequestError, match=rf"127.0.0.1:{free_port} does not answer: Conn.*refused"
    ):
        connect(f"127.0.0.1:{free_port}")
    with pytest.raises(RequestError, match="is ray://head:10001: expected HOST:PORT of the"):
        connect("ray://head:10001")


@pytest.fixture
def free_port():
    """Return a port that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_last_words_are_masked_before_they_are_cut():
    remember("s3cret" * 10)
    ending = returned_ending(1, "x" * 280 + " " + "s3cret" * 10, "n1")
    assert "s3cret" not in ending.words
