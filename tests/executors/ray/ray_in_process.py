"""Ray in this process, for what is built on it: workers are threads, nodes are amounts.

`InProcessRay` has the names of the package `ray` that Tarmac calls, with the behaviour that
`test_ray_conformance.py` and its neighbours hold on a real cluster; agents are real processes.

    ray = InProcessRay(Node("n1", cpus=4, gpus=2))
    ray.kill_worker("n1")
"""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import math
import platform
import threading
import traceback
import types
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any

import grpc
from ray import exceptions
from ray.util import scheduling_strategies

_ANSWERS_WITHIN_S = 90.0


@dataclasses.dataclass(eq=False)
class Node:
    """A node of the cluster.

    Attributes:
        name: Its host's, as Ray lists it.
        cpus: That nothing uses yet; likewise `resources`.
        gpus: Part of each GPU that nothing uses.
        is_blind: Whether it sees another directory in the place of the run's.
    """

    name: str
    cpus: float = 4.0
    num_gpus: int = 0
    memory_bytes: float = 8.0 * 2**30
    resources: dict[str, float] = dataclasses.field(default_factory=dict)
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    is_blind: bool = False
    is_alive: bool = True

    def __post_init__(self) -> None:
        self.id = self.name.encode().hex().ljust(56, "0")
        amounts = {"CPU": self.cpus, "GPU": float(self.num_gpus), "memory": self.memory_bytes}
        self.total = {**amounts, **self.resources}
        self.free = {**self.total}
        self.gpus = [1.0] * self.num_gpus

    def fits(self, amounts: Mapping[str, float], labels: Mapping[str, str]) -> bool:
        own = {**self.labels, "ray.io/node-id": self.id}
        for name, wanted in labels.items():
            if wanted.startswith("!in("):
                if own.get(name) in wanted[4:-1].split(","):
                    return False
            elif own.get(name) != wanted:
                return False
        has = all(self.free.get(name, 0.0) + 1e-9 >= n for name, n in amounts.items())
        return self.is_alive and has and self._gpu_ids(amounts.get("GPU", 0.0)) is not None

    def take(self, amounts: Mapping[str, float]) -> list[int]:
        for name, amount in amounts.items():
            self.free[name] -= amount
        gpus = amounts.get("GPU", 0.0)
        ids = self._gpu_ids(gpus) or []
        for number in ids:
            self.gpus[number] -= min(gpus, 1.0)
        return ids

    def give_back(self, amounts: Mapping[str, float], gpu_ids: list[int]) -> None:
        for name, amount in amounts.items():
            self.free[name] += amount
        for number in gpu_ids:
            self.gpus[number] += min(amounts["GPU"], 1.0)

    def _gpu_ids(self, gpus: float) -> list[int] | None:
        free = [number for number, part in enumerate(self.gpus) if part + 1e-9 >= min(gpus, 1.0)]
        number = math.ceil(gpus)
        return free[:number] if len(free) >= number else None


class Ref:
    """An answer that comes."""

    def __init__(self) -> None:
        self._answer: futures.Future[Any] = futures.Future()

    def future(self) -> futures.Future[Any]:
        return self._answer

    def __deepcopy__(self, _: object) -> Ref:
        return self


@dataclasses.dataclass(eq=False)
class _Call:
    """A task or a group, from its submission to its end."""

    ref: Ref
    amounts: dict[str, float]
    labels: dict[str, str]
    name: str = ""
    run: Callable[[], Any] | None = None
    node: Node | None = None
    gpu_ids: list[int] = dataclasses.field(default_factory=list)
    thread: threading.Thread | None = None
    group: Group | None = None
    rank: int = 0


@dataclasses.dataclass(eq=False)
class Group:
    """A placement group, and the nodes that it holds."""

    ray: InProcessRay
    bundles: list[dict[str, float]]
    labels: list[dict[str, str]]
    state: str = "PENDING"
    nodes: list[Node] = dataclasses.field(default_factory=list)
    gpu_ids: list[list[int]] = dataclasses.field(default_factory=list)
    ref: Ref = dataclasses.field(default_factory=Ref)

    def ready(self) -> Ref:
        return self.ref

    def __deepcopy__(self, _: object) -> Group:
        return self


class _Remote:
    def __init__(self, ray: InProcessRay, what: Any, options: Mapping[str, Any]) -> None:
        self._ray, self._what, self._options = ray, what, options

    def options(self, **options: Any) -> _Remote:
        return _Remote(self._ray, self._what, {**self._options, **options})

    def remote(self, *arguments: Any) -> Any:
        if isinstance(self._what, type):
            return _Actor(self._ray, self._what(*arguments))
        return self._ray.submit(self._what, copy.deepcopy(arguments), self._options)


class _Actor:
    """One call after another, in the caller's thread."""

    def __init__(self, ray: InProcessRay, value: Any) -> None:
        self._ray, self._value, self._lock = ray, value, threading.Lock()

    def __getattr__(self, name: str) -> Any:
        method, ref = getattr(self._value, name), Ref()

        def call(*arguments: Any) -> Ref:
            with self._lock:
                ref.future().set_result(method(*copy.deepcopy(arguments)))
            return ref

        return types.SimpleNamespace(remote=call)

    def __deepcopy__(self, _: object) -> _Actor:
        return self


class InProcessRay:
    """The package `ray`, connected to a cluster of some nodes.

    Attributes:
        known: The cluster's nodes, by name.
        calls: Options of each task that was submitted.
        inits: Arguments of each call of `init`.
        refuses: What `init` raises.
    """

    __version__ = "2.60.0"
    exceptions = exceptions

    def __init__(self, *nodes: Node) -> None:
        self.known = {node.name: node for node in nodes}
        self.calls: list[dict[str, Any]] = []
        self.inits: list[dict[str, Any]] = []
        self.refuses: Exception | None = None
        self.util = types.SimpleNamespace(scheduling_strategies=scheduling_strategies)
        self.cloudpickle = types.SimpleNamespace(register_pickle_by_value=lambda _: None)
        self.util_placement_group = types.SimpleNamespace(
            placement_group=self._group,
            remove_placement_group=self._remove_group,
            placement_group_table=lambda group: {"state": group.state},
        )
        self._lock = threading.RLock()
        self._waiting: list[_Call] = []
        self._at_work: dict[Ref, _Call] = {}
        self._context = threading.local()

    # What the driver calls.

    def init(self, **options: Any) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.inits.append(options)

    def is_initialized(self) -> bool:
        return bool(self.inits)

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "Alive": node.is_alive,
                "NodeManagerHostname": node.name,
                "NodeManagerAddress": "127.0.0.1",
                "NodeName": node.name,
                "NodeID": node.id,
                "Resources": {**node.total},
                "Labels": {**node.labels},
            }
            for node in self.known.values()
        ]

    def available_resources(self) -> dict[str, float]:
        with self._lock:
            free: dict[str, float] = {}
            for node in self.known.values():
                for name, amount in node.free.items():
                    free[name] = free.get(name, 0.0) + amount
            return free

    def remote(self, *what: Any, **options: Any) -> Any:
        if not what:
            return lambda function: _Remote(self, function, options)
        return _Remote(self, what[0], options)

    def put(self, value: Any) -> Ref:
        ref = Ref()
        ref.future().set_result(value)
        return ref

    def get(self, refs: Any) -> Any:
        if isinstance(refs, list):
            return [self.get(ref) for ref in refs]
        return refs.future().result(_ANSWERS_WITHIN_S)

    def wait(self, refs: list[Ref], num_returns: int = 1, timeout: float | None = None) -> Any:
        when = futures.ALL_COMPLETED if num_returns == len(refs) else futures.FIRST_COMPLETED
        done, _ = futures.wait([ref.future() for ref in refs], timeout, when)
        ended = [ref for ref in refs if ref.future() in done]
        return ended, [ref for ref in refs if ref not in ended]

    def cancel(self, ref: Ref) -> None:
        with self._lock:
            call = self._at_work.get(ref)
            if call is not None:
                self._interrupt(call, KeyboardInterrupt)
                return
            for call in [call for call in self._waiting if call.ref is ref]:
                self._waiting.remove(call)
                ref.future().set_exception(exceptions.TaskCancelledError())

    def get_runtime_context(self) -> Any:
        node = getattr(self._context, "node", None) or next(iter(self.known.values()))
        return types.SimpleNamespace(get_node_id=lambda: node.id)

    def get_gpu_ids(self) -> list[int]:
        return self._context.gpu_ids

    def thread_of_worker(self, target: Callable[[], None], **more: Any) -> threading.Thread:
        """Return a thread that is in the process of the worker that calls this."""
        own = dict(vars(self._context))

        def work() -> None:
            vars(self._context).update(own)
            target()

        return threading.Thread(target=work, **more)

    # What befalls a cluster.

    def kill_worker(self, node: str) -> None:
        """End what runs on a node, as the death of its process does."""
        self._lose(node, exceptions.WorkerCrashedError())

    def kill_node(self, node: str) -> None:
        """Take a node from the cluster, with what runs there."""
        self.known[node].is_alive = False
        self._lose(node, exceptions.NodeDiedError("gone"))

    def fill(self, node: str) -> None:
        """End what runs on a node, as Ray does where its memory is full."""
        self._lose(node, exceptions.OutOfMemoryError("was 61.1GB used / 64.0GB limit"))

    def is_here_blind(self) -> bool:
        return self._context.node.is_blind

    @property
    def held(self) -> list[str]:
        """Names of nodes that are not all free."""
        with self._lock:
            nodes = self.known.values()
            return [node.name for node in nodes if node.free != node.total]

    def submit(self, function: Any, arguments: Any, options: Mapping[str, Any]) -> Ref:
        ref = Ref()
        amounts = {"CPU": options.get("num_cpus", 1), "GPU": options.get("num_gpus", 0)}
        amounts |= options.get("resources", {})
        if "memory" in options:
            amounts["memory"] = options["memory"]
        if "accelerator_type" in options:
            amounts[f"accelerator_type:{options['accelerator_type']}"] = 0.001
        amounts = {name: n for name, n in amounts.items() if n}
        call = _Call(ref, amounts, options.get("label_selector", {}), options.get("name", ""))
        call.run = lambda: function(*arguments)
        strategy = options.get("scheduling_strategy")
        if isinstance(strategy, scheduling_strategies.PlacementGroupSchedulingStrategy):
            call.group = strategy.placement_group
            call.rank = strategy.placement_group_bundle_index
        self.calls.append(dict(options))
        with self._lock:
            self._waiting.append(call)
        self._place()
        return ref

    # How it places what waits.

    def _place(self) -> None:
        with self._lock:
            for call in [*self._waiting]:
                if self._is_placed(call):
                    self._waiting.remove(call)
                    call.thread = threading.Thread(target=self._work, args=(call,), daemon=True)
                    self._at_work[call.ref] = call
                    call.thread.start()
            for group in [*self._groups]:
                if group.state == "PENDING" and self._is_held(group):
                    group.state = "CREATED"
                    group.ref.future().set_result(group)

    def _is_placed(self, call: _Call) -> bool:
        if call.group is not None:
            # A bundle has what its tasks ask for.
            call.node, call.gpu_ids = call.group.nodes[call.rank], call.group.gpu_ids[call.rank]
            return True
        for node in self.known.values():
            if node.fits(call.amounts, call.labels):
                call.node, call.gpu_ids = node, node.take(call.amounts)
                return True
        return False

    def _work(self, call: _Call) -> None:
        future = call.ref.future()
        self._context.node, self._context.gpu_ids = call.node, call.gpu_ids
        answer: Any = None
        problem: BaseException | None = None
        try:
            answer = call.run() if call.run else None
        except KeyboardInterrupt:
            problem = exceptions.TaskCancelledError()
        except SystemExit:
            # Its process is gone; how, has been told.
            pass
        except Exception as error:
            text = traceback.format_exc()
            raised = exceptions.RayTaskError("perform", text, error, "ray", 1, "127.0.0.1")
            problem = raised.as_instanceof_cause()
        self._leave(call)
        if not future.done():
            future.set_exception(problem) if problem else future.set_result(answer)
        self._place()

    def _leave(self, call: _Call) -> None:
        with self._lock:
            is_there = self._at_work.pop(call.ref, None) is not None
            if is_there and call.group is None and call.node is not None:
                call.node.give_back(call.amounts, call.gpu_ids)

    def _lose(self, name: str, error: Exception) -> None:
        with self._lock:
            for call in [*self._at_work.values()]:
                if call.node is self.known[name]:
                    self._interrupt(call, SystemExit)
                    self._leave(call)
                    call.ref.future().set_exception(error)

    def _interrupt(self, call: _Call, kind: type[BaseException]) -> None:
        # As Ray's own comes: between two steps of Python.
        assert call.thread is not None
        thread = ctypes.c_ulong(call.thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(kind))

    # Placement groups.

    @property
    def _groups(self) -> list[Group]:
        return self.__dict__.setdefault("_made_groups", [])

    def _group(self, bundles: list[dict[str, float]], strategy: str, **selectors: Any) -> Group:
        assert strategy == "STRICT_SPREAD"
        assert all(bundles), "a bundle must ask for something"
        labels = selectors.get("bundle_label_selector", [{}] * len(bundles))
        group = Group(self, bundles, labels)
        with self._lock:
            self._groups.append(group)
        self._place()
        return group

    def _is_held(self, group: Group) -> bool:
        chosen: list[Node] = []
        for bundle, labels in zip(group.bundles, group.labels, strict=True):
            fitting = (
                node
                for node in self.known.values()
                if node not in chosen and node.fits(bundle, labels)
            )
            node = next(fitting, None)
            if node is None:
                return False
            chosen.append(node)
        group.nodes = chosen
        pairs = zip(chosen, group.bundles, strict=True)
        group.gpu_ids = [node.take(bundle) for node, bundle in pairs]
        return True

    def _remove_group(self, group: Group) -> None:
        with self._lock:
            if group.state == "PENDING":
                group.ref.future().set_exception(exceptions.TaskPlacementGroupRemoved())
            elif group.state == "CREATED":
                for node, bundle, ids in zip(
                    group.nodes, group.bundles, group.gpu_ids, strict=True
                ):
                    node.give_back(bundle, ids)
            group.state = "REMOVED"
        self._place()


@dataclasses.dataclass
class Head:
    """A server that answers as a head does before a driver begins.

    Attributes:
        token: That it asks for; none where it is empty.
        versions: Of Ray and Python, as the cluster has them; None where it does not say so.
    """

    token: str = ""
    versions: dict[str, str] | None = dataclasses.field(
        default_factory=lambda: {
            "ray_version": InProcessRay.__version__,
            "python_version": platform.python_version(),
        }
    )

    def __post_init__(self) -> None:
        self._server = grpc.server(futures.ThreadPoolExecutor(1))
        self._server.add_generic_rpc_handlers((_Methods(self),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        """End it, and wait until its port takes no connections."""
        self._server.stop(None).wait()


class _Methods(grpc.GenericRpcHandler):
    def __init__(self, head: Head) -> None:
        self._head = head

    def service(self, details: Any) -> Any:
        sent = dict(details.invocation_metadata)
        is_health = details.method == "/grpc.health.v1.Health/Check"

        def answer(_: bytes, context: Any) -> bytes:
            token = self._head.token
            if not is_health and token and sent.get("authorization") != f"Bearer {token}":
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "InvalidAuthToken")
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)
