"""A real Ray of several nodes on this machine, for each module of tests."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import tempfile
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray_in_process import Head, InProcessRay, Node

from ray_heads import OBJECT_STORE_BYTES, start_head
from tarmac.executors.ray import RayExecutor, connection, kind, worker
from tarmac.jobs import Event, Silent, Site, Task, parse_job, plan_tasks, run_tasks
from tarmac.jobs.progress import Ended
from waiting import wait_until

# The loss of a node is seen in seconds rather than half a minute.
_HASTY = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 5,
}

# A busy machine takes longer, and a passing test does not wait.
_WITHIN_S = 90.0


@dataclasses.dataclass
class RayCluster:
    """A cluster whose nodes are processes of this machine.

    Attributes:
        cluster: Ray's own.
    """

    cluster: Any

    @property
    def address(self) -> str:
        return self.cluster.address

    @property
    def options(self) -> dict[str, dict[str, Any]]:
        return {"ray": {"address": self.address}}

    def add_node(self, **what: Any) -> Any:
        return self.cluster.add_node(object_store_memory=OBJECT_STORE_BYTES, **what)

    def kill_node_of(self, pid: int) -> str:
        """Kill the node that a process belongs to; return its name."""
        ancestors = {parent.pid for parent in psutil.Process(pid).parents()}
        (node,) = (
            node
            for node in self.cluster.worker_nodes
            if node.all_processes["raylet"][0].process.pid in ancestors
        )
        known = {node["ObjectStoreSocketName"]: node["NodeName"] for node in ray.nodes()}
        self.cluster.remove_node(node, allow_graceful=False)
        return known[node.plasma_store_socket_name]

    def kill_node(self, name: str) -> None:
        """Kill a node that a module has named in ``NODES``."""
        known = {node["NodeName"]: node["ObjectStoreSocketName"] for node in ray.nodes()}
        (node,) = (
            node
            for node in self.cluster.worker_nodes
            if node.plasma_store_socket_name == known[name]
        )
        self.cluster.remove_node(node, allow_graceful=False)


@pytest.fixture(scope="module")
def cluster_of_module(request):
    """Return a context manager of a cluster whose head has what the module says in ``HEAD``.

    Where it says ``IN_BACKGROUND``, as a script's ``ray start ... &`` does: without SIGINT.
    """

    @contextlib.contextmanager
    def start():
        head = {"num_cpus": 4, "num_gpus": 2, "_system_config": _HASTY}
        before = signal.getsignal(signal.SIGINT)
        if getattr(request.module, "IN_BACKGROUND", False):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            started = start_head(**head | getattr(request.module, "HEAD", {}))
            for node in getattr(request.module, "NODES", ()):
                started.add_node(object_store_memory=OBJECT_STORE_BYTES, **node)
        finally:
            signal.signal(signal.SIGINT, before)
        yield RayCluster(started)
        ray.shutdown()
        started.shutdown()

    return start


@pytest.fixture(scope="module")
def cluster(cluster_of_module):
    """Start a cluster for all tests of the module; they leave it at work."""
    with cluster_of_module() as started:
        yield started


class Progress(Silent):
    """Keeps what a run tells, and does what a test wants to be done as it goes.

    Attributes:
        events: What was told of attempts.
        ends: Of tasks, by name.
        retries: Reasons for another attempt.
        act: Gets this object each time something was told, or time has passed.
    """

    def __init__(self, act: Callable[[Progress], None] = lambda _: None) -> None:
        self.events: list[Event] = []
        self.ends: dict[str, Ended] = {}
        self.retries: list[str] = []
        self.act = act

    def told(self, event: Event) -> None:
        self.events.append(event)

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        self.retries.append(reason)

    def ended(self, ended: Ended) -> None:
        assert ended.task.name not in self.ends, f"{ended.task.name} ended twice"
        self.ends[ended.task.name] = ended

    def waited(self) -> None:
        self.act(self)

    def of(self, kind: type[Event]) -> list[Any]:
        """Return the events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def progress():
    """Keep what a run tells."""
    return Progress()


@dataclasses.dataclass
class Runs:
    """Takes jobs' tasks through Ray in a directory of their own."""

    directory: Path
    address: str

    @property
    def run(self) -> Path:
        return self.directory / "run"

    def tasks(self, job: str) -> list[Task]:
        parsed = parse_job(textwrap.dedent(job))
        options = {"ray": {"address": self.address, **parsed.options.get("ray", {})}}
        return [*plan_tasks(parsed.model_copy(update={"options": options}), self.directory)]

    def __call__(
        self,
        job: str,
        act: Callable[[Progress], None] = lambda _: None,
        concurrency: int | None = None,
        stop: Callable[[], bool] = lambda: False,
        *,
        keep_going: bool = False,
    ) -> Progress:
        """Work on a job's tasks until they have ended, or it is to stop."""
        tasks, progress = self.tasks(job), Progress(act)
        (self.run / "tasks").mkdir(parents=True, exist_ok=True)
        site = Site(
            tasks=tasks,
            run=self.run,
            base=self.directory,
            shared=self.run / "shared",
            fake_gpus=2,
            concurrency=concurrency,
            keep_going=keep_going,
        )
        with contextlib.closing(RayExecutor(site)) as executor:
            run_tasks(tasks, self.run, executor, progress, stop=stop)
        return progress

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file that tasks have written."""
        path = self.directory / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.fixture
def runs_on(tmp_path, monkeypatch):
    """Take jobs through the cluster at an address; what was disturbed begins again at once."""
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    return lambda address: Runs(tmp_path, address)


@pytest.fixture
def runs(cluster, runs_on):
    """Take jobs through the module's cluster."""
    return runs_on(cluster.address)


@pytest.fixture
def until():
    """Return a function that waits until something is so."""

    def wait(is_so: Callable[[], Any], what: str) -> Any:
        return wait_until(is_so, what, seconds=_WITHIN_S)

    return wait


@pytest.fixture
def in_process(monkeypatch, tmp_path_factory):
    """Return a function that takes nodes, and has Tarmac meet a Ray of these in this process.

    Its nodes are new machines: nothing of Tarmac is there yet.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("node")))
    heads = []

    def start(*nodes: Node, head: Head | None = None) -> InProcessRay:
        made, head = InProcessRay(*nodes), head or Head()
        heads.append(head)
        made.head = head
        usage = types.SimpleNamespace(get_cluster_metadata=lambda _: head.versions)
        raylet = types.SimpleNamespace(GcsClient=lambda address: address)
        for name, module in {
            "ray": made,
            "ray._raylet": raylet,
            "ray._private.utils": types.SimpleNamespace(read_ray_address=lambda _: None),
            "ray._common.usage.usage_lib": usage,
            "ray.util.placement_group": made.util_placement_group,
        }.items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(connection, "_connected", None)
        monkeypatch.setattr(kind, "_units", {})
        # Ray's workers are there before a test sets variables.
        its_os = types.SimpleNamespace(**{**vars(os), "environ": dict(os.environ)})
        monkeypatch.setattr(worker, "os", its_os)
        its_threads = types.SimpleNamespace(Thread=made.thread_of_worker)
        monkeypatch.setattr(worker, "threading", its_threads)
        see = worker.see
        monkeypatch.setattr(
            worker, "see", lambda work: (see(work)[0], see(work)[1] and not made.is_here_blind())
        )
        return made

    yield start
    for head in heads:
        head.stop()
