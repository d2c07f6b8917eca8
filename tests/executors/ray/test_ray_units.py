"""Attempts on their way through Ray: how many it has, what is capped, avoided and forgotten."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from pathlib import Path

import pytest
from ray_in_process import Node

from tarmac.executors.queueing import ChunkFiles
from tarmac.executors.ray import worker
from tarmac.executors.ray.connection import connect
from tarmac.executors.ray.demand import Demand
from tarmac.executors.ray.engine import Probe, RayEngine
from tarmac.executors.ray.groups import Group
from tarmac.executors.ray.units import Unit, Units
from tarmac.executors.spool import Spool
from tarmac.jobs import parse_job, plan_tasks
from tarmac.node import AttemptSpec


@pytest.fixture
def started(in_process, monkeypatch):
    """Return a function that takes nodes, and gives a Ray of these and its driver's units.

    What a unit runs waits for `gate`, and answers that its agent has ended well.
    """
    gate = threading.Event()

    def stay(work, agent, mirror=None):
        gate.wait(60)
        return {"host": "n1", "exit": 0, "said": ""}

    monkeypatch.setattr(worker, "perform", stay)

    def start(*nodes: Node):
        ray = in_process(*nodes)
        return ray, Units(connect(ray.head.address)), gate

    yield start
    gate.set()


def units_of(number: int, chunk: str = "a", **values) -> list[Unit]:
    demand = values.pop("demand", Demand())
    return [Unit(chunk, n, f"task-{n}", demand, {}, b"agent", **values) for n in range(number)]


def sent(units: list[Unit]) -> int:
    return sum(unit.state == "sent" for unit in units)


def test_ray_has_twice_what_fits_and_sixteen(started):
    _, units, gate = started(Node("n1", cpus=4))
    many = units_of(40)
    units.add(many, None)
    assert sent(many) == 24
    assert [unit.state for unit in many[:24]] == ["sent"] * 24
    gate.set()
    units.settle(60)
    assert {unit.state for unit in many} == {"over"}
    assert all(unit.ending.cause is None for unit in many)


def test_a_cluster_that_grows_has_what_fits_and_as_many_as_may_wait(started):
    _, units, _ = started(Node("n1", cpus=4))
    many = units_of(40, max_pending=3)
    units.add(many, None)
    assert sent(many) == 7


def test_a_cap_holds_for_its_chunk_alone_and_may_be_raised(started):
    _, units, _ = started(Node("n1", cpus=4))
    capped, others = units_of(6), units_of(6, "b")
    units.add(capped, 2)
    units.add(others, None)
    assert (sent(capped), sent(others)) == (2, 6)
    units.cap("a", 5)
    assert [unit.state for unit in capped] == ["sent"] * 5 + ["here"]


def test_only_what_has_not_been_sent_avoids_a_node(started):
    ray, units, gate = started(Node("n1", cpus=4))
    many = units_of(3)
    units.add(many, 1)
    units.avoid("a", ("f" * 56,))
    units.avoid("other", ("e" * 56,))
    assert [unit.excluded for unit in many] == [(), ("f" * 56,), ("f" * 56,)]
    gate.set()
    units.cap("a", 3)
    units.settle(60)
    selectors = [call.get("label_selector") for call in ray.calls]
    assert selectors == [None, *[{"ray.io/node-id": f"!in({'f' * 56})"}] * 2]
    assert ray.calls[0]["name"] == "tarmac task-0"


def test_what_ray_has_not_begun_is_taken_back_and_ends_at_once(started):
    _, units, gate = started(Node("n1", cpus=1))
    heard = []
    units.heard = lambda: heard.append(True)
    many = units_of(20)
    units.add(many, None)
    units.cancel(many[1:])
    assert heard
    assert many[19].ending.words == "cancelled before Ray had it"
    gate.set()
    units.settle(60)
    assert {unit.ending.words for unit in many[1:18]} == {"cancelled in Ray from outside"}
    assert {unit.ending.cause for unit in many[1:]} == {"cancelled"}
    assert many[0].ending.cause is None
    # What is over stays as it ended.
    before = many[0].ending
    units.cancel(many)
    assert many[0].ending is before


def test_chunks_that_are_over_are_forgotten(started):
    _, units, _ = started(Node("n1"))
    units.add(units_of(2), None)
    units.add(units_of(1, "b"), None)
    assert units.known_chunks() == {"a", "b"}
    units.forget(["a"])
    assert units.known_chunks() == {"b"}
    assert (("a", 0) in units, ("b", 0) in units) == (False, True)
    assert [unit.place for unit in units.of("b")] == ["b_0"]


def test_a_group_holds_its_nodes_until_its_attempt_is_over(started):
    ray, units, gate = started(*(Node(f"n{number}", cpus=1) for number in (1, 2, 3)))
    first, second = units_of(2, demand=Demand(nodes=2))
    units.add([first], None)
    assert ray.held == ["n1", "n2"]
    units.add([second], None)
    assert second.ref is None
    units.cancel([second])
    gate.set()
    units.settle(60)
    assert first.ending.cause is None
    assert second.state == "over"
    assert ray.held == []


def test_a_group_of_nothing_asks_for_the_least_and_avoids_nodes(in_process):
    ray = in_process(*(Node(f"n{number}") for number in (1, 2, 3)))
    one = ray.known["n1"].id
    group = Group(ray, Demand(cpus=0, nodes=2), (one,))
    assert group.ready.result(60)
    assert group.handle.bundles == [{"CPU": 0.0001}] * 2
    assert ray.held == ["n2", "n3"]
    strategy = group.strategy(1)
    assert (strategy.placement_group, strategy.placement_group_bundle_index) == (group.handle, 1)
    group.remove()
    assert ray.held == []


def test_an_error_of_a_worker_is_the_tasks_ending(started, monkeypatch):
    _, units, gate = started(Node("n1"))
    gate.set()
    broken = units_of(1)
    monkeypatch.setattr(gate, "wait", lambda _: 1 / 0)
    units.add(broken, None)
    units.settle(60)
    ending = broken[0].ending
    assert (ending.cause, ending.words.partition(":")[0]) == ("start", "its agent was not started")
    assert "ZeroDivisionError" in ending.words


def test_the_second_end_on_a_full_node_is_the_tasks_own(started):
    ray, units, _ = started(Node("n1"))
    for number, cause in enumerate(("evicted", "memory")):
        (unit,) = units_of(1, f"chunk-{number}")
        units.add([unit], None)
        ray.fill("n1")
        units.settle(60)
        assert unit.ending.cause == cause


@pytest.fixture
def engine(started, tmp_path):
    """Return an engine, with a chunk of three units that has been submitted to it."""
    ray, units, gate = started(Node("n1", cpus=1), Node("n2", cpus=1))
    run = tmp_path / "run"
    run.mkdir()
    files, agent, probe = ChunkFiles(run), run / "agent.pyz", Probe(run / "probe", "n")
    agent.write_bytes(b"agent")
    made = RayEngine(
        connect(ray.head.address), units, files=files, agent=agent, probe=probe, spool=Spool(run)
    )
    text = "{name: x, command: 'true', options: {ray: {max_pending: 7}}}"
    (task,) = plan_tasks(parse_job(text), tmp_path)
    chunk = files.make(dict(made.shape(task)), [(0, 1), (1, 1), (2, 1)], 1)
    elements = [
        AttemptSpec(
            task=n, number=1, nonce="n", directory=str(run / f"{n}"), name="x", command=["true"]
        )
        for n in range(3)
    ]
    files.write(chunk, elements)
    return made, chunk, units, gate


def test_a_run_knows_its_cluster_by_the_heads_address(engine):
    made, _, _, _ = engine
    address = made.cluster().name
    assert made.cluster().way == f"RAY_ADDRESS={address}"


def test_only_a_cluster_that_grows_has_tasks_wait_in_its_own_queue(engine, tmp_path):
    made, chunk, _, _ = engine
    assert chunk.shape["max_pending"] is None
    text = "{name: y, command: 'true', options: {ray: {autoscaling: true, max_pending: 7}}}"
    (task,) = plan_tasks(parse_job(text), tmp_path)
    assert made.shape(task)["max_pending"] == 7


def test_an_engine_shows_what_its_driver_has_and_how_it_ended(engine):
    made, chunk, units, gate = engine
    assert made.find(chunk) is None
    lost = made.look([chunk])
    assert {shown.ending.cause for shown in lost.values()} == {"lost"}
    assert made.submit(chunk, most_at_once=1, excluded=["n1"]) == made.find(chunk)
    made.avoid(chunk, ["n2"])
    n1, n2 = (node.id for node in connect(made.cluster().name).nodes())
    assert [unit.excluded for unit in units.of(chunk.name)] == [(n1,), (n2,), (n2,)]
    shown = made.look([chunk])
    assert [one.phase for one in shown.values()] == ["waiting"] * 3
    # What is free is known as of a moment ago.
    reasons = {one.reason.partition(" (")[0] for one in shown.values()}
    assert reasons == {"waits for Ray to start it; it needs 1 CPU"}
    assert made.endings([(chunk, 0)]) == {}
    assert made.final_status(chunk, 0) is None
    made.throttle(chunk, 2)
    assert [unit.state for unit in units.of(chunk.name)] == ["sent", "sent", "here"]
    made.cancel([(chunk, 2)])
    gate.set()
    units.settle(60)
    endings = made.endings([(chunk, number) for number in range(3)])
    assert [ending.cause for ending in endings.values()] == [None, None, "cancelled"]
    assert [one.phase for one in made.look([chunk]).values()] == ["over"] * 3
    # What is not asked for any more is forgotten.
    made.look([])
    assert units.known_chunks() == set()


def test_secrets_are_in_the_workers_memory_and_in_no_file():
    with contextlib.ExitStack() as held:
        paths = worker._put_down({"TOKEN": b"one", "KEY": b"another"}, held)
        assert all(str(Path(path).readlink()).startswith("/memfd:") for path in paths.values())
        for name, value in (("TOKEN", b"one"), ("KEY", b"another"), ("KEY", b"another")):
            assert subprocess.check_output(["cat", paths[name]]) == value
    assert not any(Path(path).exists() for path in paths.values())
