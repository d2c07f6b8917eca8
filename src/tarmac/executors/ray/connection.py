"""This process's only connection to a Ray cluster, as its driver.

A process has one Ray driver, and Ray ends the driver's tasks with it. This module checks for
known problems first and explains them, as Ray itself would retry for a minute or end the process.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tarmac.distribution import install_hint
from tarmac.errors import RequestError, short_reason
from tarmac.executors.ray.demand import RayNode
from tarmac.ray import read_token

_ANSWERS_WITHIN_S = 5.0

# Nodes and their free resources are queried again after this.
_KNOWN_FOR_S = 2.0

_WHERE = (
    "Name it: --set options.ray.address=HOST:PORT, or RAY_ADDRESS; or start one here: "
    "ray start --head"
)

_GIVE_ONE = (
    "Set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH to its file; on the head: "
    "~/.ray/auth_token"
)


class Versions(NamedTuple):
    """The versions that must be equal on all sides of a cluster.

    Attributes:
        ray: Version of Ray, such as ``2.60.0``.
        python: Version of Python, such as ``3.11.7``.
    """

    ray: str
    python: str


def explain_versions(here: Versions, cluster: Versions, address: str) -> str:
    """Return why this process cannot work with a cluster; empty where it can."""
    words = []
    if here.ray != cluster.ray:
        words.append(f"Ray {cluster.ray} there, {here.ray} here")
    if here.python != cluster.python:
        words.append(f"Python {cluster.python} there, {here.python} here")
    return f"the Ray cluster at {address} is of another version: {', '.join(words)}" * bool(words)


class Connection:
    """The queries of this process to a cluster.

    Args:
        ray: The imported package ``ray``.
        address: Address of the cluster's head, ``HOST:PORT``.
    """

    def __init__(self, ray: Any, address: str) -> None:
        self.ray = ray
        self.address = address
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._nodes: Sequence[RayNode] = ()
        self._free: Mapping[str, float] = {}

    def nodes(self) -> Sequence[RayNode]:
        """Return the nodes that are alive, as of a moment ago."""
        self._ask()
        return self._nodes

    def free(self) -> Mapping[str, float]:
        """Return the free amount of each resource on all nodes, as of a moment ago."""
        self._ask()
        return self._free

    def answers(self) -> bool:
        """Return whether the head's port accepts connections."""
        return _problem_of(self.address) is None

    def _ask(self) -> None:
        with self._lock:
            if time.monotonic() - self._asked_at < _KNOWN_FOR_S:
                return
            self._nodes = _named([node for node in self.ray.nodes() if node["Alive"]])
            self._free = self.ray.available_resources()
            self._asked_at = time.monotonic()


_connected: Connection | None = None
_connecting = threading.Lock()


def connect(address: str = "") -> Connection:
    """Connect this process to a cluster, or return the connection that it has.

    Args:
        address: ``HOST:PORT``, or ``auto`` for the cluster that this machine is part of. Default:
            ``RAY_ADDRESS``, else ``auto``.

    Raises:
        RequestError: The package is missing, there is no cluster, the cluster does not answer or is
            of another version, or this process is connected to another cluster.
    """
    global _connected  # noqa: PLW0603 - Ray itself has one in a process
    ray = _package()
    with _connecting:
        if _connected is not None and ray.is_initialized():
            wanted = _resolved(address)
            if wanted in (_connected.address, None):
                return _connected
            raise RequestError(
                f"this process works with the Ray cluster at {_connected.address}, not {wanted}"
            )
        cluster_address = _resolved(address)
        if cluster_address is None:
            raise RequestError("no Ray cluster was found on this machine", hint=_WHERE)
        _refuse_silent(cluster_address)
        _refuse_other_version(ray, cluster_address)
        _start_driver(ray, cluster_address)
        _connected = Connection(ray, cluster_address)
        return _connected


def _package() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise RequestError(
            "--on ray needs the package ray in the cluster's version",
            hint=f"Install it: {install_hint('ray')}\n"
            "Or start the runner on the cluster's head, over HTTP: tarmac submit FILE --on "
            "ray",
        ) from error


def _resolved(address: str) -> str | None:
    """Return a cluster's address as host and port; None where no cluster is found."""
    named = address or os.environ.get("RAY_ADDRESS", "") or "auto"
    if named.startswith(("ray://", "http://", "https://")):
        raise RequestError(
            f"options.ray.address is {named}: expected HOST:PORT of the cluster's head, on a "
            "machine of the cluster",
            hint="The head's port is 6379 unless ray start was given another port.",
        )
    if named != "auto":
        return named
    utils = importlib.import_module("ray._private.utils")
    cluster_address: str | None = utils.read_ray_address(None)
    return cluster_address


def _refuse_silent(address: str) -> None:
    problem = _problem_of(address)
    is_plain = os.environ.get("RAY_USE_TLS", "0").lower() in ("", "0", "false")
    if problem is None and is_plain:
        problem = _strangeness_of(address)
    if problem is not None:
        raise RequestError(f"the Ray cluster at {address} does not answer: {problem}", hint=_WHERE)
    refusal = _refusal_of(address) if is_plain else ""
    if refusal:
        raise RequestError(f"the Ray cluster at {address} {refusal}", hint=_GIVE_ONE)


def _problem_of(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return "expected HOST:PORT"
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWERS_WITHIN_S).close()
    except OSError as error:
        return short_reason(error)
    return None


def _strangeness_of(address: str) -> str | None:
    """Return why a server is no Ray head, which Ray would try for 20 s; None if it may be one."""
    try:
        grpc = importlib.import_module("grpc")
    except ImportError:
        # Some installations of Ray lack grpc. Then only Ray's own error explains the problem.
        return None
    # All of Ray's servers answer this call (ray: src/ray/rpc/grpc_server.cc).
    options = [("grpc.enable_http_proxy", 0)]
    try:
        with grpc.insecure_channel(address, options=options) as channel:
            channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=_ANSWERS_WITHIN_S)
    except grpc.RpcError as error:
        reason = error.details() or error.code().name
        return f"the server there is not a Ray head: {reason}"
    return None


def _refusal_of(address: str) -> str:
    """Return how a head refuses this process's token, which Ray itself does not report."""
    try:
        grpc = importlib.import_module("grpc")
    except ImportError:
        return ""
    # Ray sends a token only in this mode (ray: src/ray/rpc/authentication).
    is_sent = os.environ.get("RAY_AUTH_MODE", "").lower() == "token"
    token = read_token(os.environ) if is_sent else None
    metadata = [("authorization", f"Bearer {token}")] if token else []
    options = [("grpc.enable_http_proxy", 0)]
    try:
        with grpc.insecure_channel(address, options=options) as channel:
            ask = channel.unary_unary("/ray.rpc.NodeInfoGcsService/GetClusterId")
            ask(b"", timeout=_ANSWERS_WITHIN_S, metadata=metadata)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            return "does not take the token" if token else "asks for a token"
    return ""


def _refuse_other_version(ray: Any, address: str) -> None:
    cluster: Versions | None = None
    # Private to Ray. Where it has moved, only Ray's own error explains the problem.
    with contextlib.suppress(ImportError, AttributeError, KeyError, ray.exceptions.RayError):
        raylet = importlib.import_module("ray._raylet")
        usage = importlib.import_module("ray._common.usage.usage_lib")
        if metadata := usage.get_cluster_metadata(raylet.GcsClient(address=address)):
            cluster = Versions(metadata["ray_version"], metadata["python_version"])
    if cluster is None:
        return
    here = Versions(ray.__version__, platform.python_version())
    words = explain_versions(here, cluster, address)
    if words:
        raise RequestError(
            words,
            hint=f"Install Tarmac with Python {cluster.python} and ray=={cluster.ray}\n"
            "Or start the runner on the cluster's head, which has those versions: tarmac submit "
            "FILE "
            "--on ray",
        )


def _start_driver(ray: Any, address: str) -> None:
    with _own_signals(), _without_address():
        try:
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level="ERROR",
                configure_logging=False,
                namespace="tarmac",
            )
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            lines = str(error).strip().splitlines()
            raise RequestError(
                f"the Ray cluster at {address} does not take this process: "
                f"{lines[0] if lines else type(error).__name__}",
                hint="The runner needs a machine of the cluster: ray start --address=HOST:PORT",
            ) from error


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep this process's handler of SIGTERM, which Ray would replace."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _without_address() -> Iterator[None]:
    """Make Ray use the chosen address, as it prefers the variable's."""
    before = os.environ.pop("RAY_ADDRESS", None)
    try:
        yield
    finally:
        if before is not None:
            os.environ["RAY_ADDRESS"] = before


def _named(nodes: Sequence[Mapping[str, Any]]) -> list[RayNode]:
    """Return nodes with unique names: host names, or names at start where hosts are equal."""
    hosts = [node["NodeManagerHostname"] for node in nodes]
    names = [node.get("NodeName") or node["NodeManagerAddress"] for node in nodes]
    ray_nodes = []
    for node, host, name in zip(nodes, hosts, names, strict=True):
        own = host if hosts.count(host) == 1 else name
        if hosts.count(host) > 1 and names.count(name) > 1:
            own = f"{host}-{node['NodeID'][:6]}"
        ray_nodes.append(RayNode(node["NodeID"], own, node["Resources"], node.get("Labels") or {}))
    return ray_nodes
