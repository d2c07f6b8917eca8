"""A node: tells the API that it is there, and runs the pods that are bound to it."""

from __future__ import annotations

import contextlib
import shutil
import ssl
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from ..quantities import amount, pod_requests
from ..store import now
from .client import Client
from .containers import Mount
from .logs import Log, LogServer
from .pods import PodWorker
from .volumes import mount_point

# A server takes a node for lost after some ten times this (node-monitor-grace-period is 50 s).
_BEAT_S = 2.0
# How long threads have to end: none of them waits for anything but an answer.
_END_S = 5.0


class Kubelet:
    """A node whose pods are processes of this machine.

    With a certificate it joins a real API server, which asks for logs by TLS alone, and which takes
    a node for lost that is silent.

    Attributes:
        name: Of the node.
        api_variables: By which pods find the API.
        entrypoints: By image, what it starts where a container has no command.
        refuse_next: A reason for which it turns the next pod away (OutOfcpu, …); empty for none.
        is_silent: Whether it tells the API nothing any more.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        directory: Path,
        *,
        claims: Path,
        account: Path,
        server: str,
        capacity: Mapping[str, str],
        labels: Mapping[str, str],
        certificate: ssl.SSLContext | None = None,
    ) -> None:
        self.name = name
        self.directory = directory / name
        self.claims = claims
        self._account = account
        api = httpx.URL(server)
        self.api_variables = {
            "KUBERNETES_SERVICE_HOST": api.host,
            "KUBERNETES_SERVICE_PORT": str(api.port),
        }
        self.entrypoints: dict[str, list[str]] = {}
        self.refuse_next = ""
        self.is_silent = False
        self.pods: dict[str, PodWorker] = {}
        self._client = client
        self._capacity = dict(capacity)
        self._lock = threading.Lock()
        self._given: dict[str, list[str]] = {}
        count = int(capacity.get("nvidia.com/gpu", 0))
        self._gpus = [
            f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{name}-{it}')}" for it in range(count)
        ]
        self._spec_of: dict[str, Mapping[str, Any]] = {}
        self._names: dict[str, list[str]] = {}
        self._name_files: list[tuple[Path, str]] = []
        self._logs = LogServer(self._find_log, certificate)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._stopped = threading.Event()
        self._register(labels)
        self._threads = [
            threading.Thread(target=self._watch, daemon=True),
            threading.Thread(target=self._watch_names, daemon=True),
        ]
        if certificate is not None:
            self._threads.append(threading.Thread(target=self._beat, daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all pods and be gone, without a word."""
        self.is_silent = True
        self._stopped.set()
        self._client.end_watches()
        workers = list(self.pods.values())
        for worker in workers:
            worker.vanish()
        for thread in [*self._threads, *(it.thread for it in workers)]:
            thread.join(_END_S)
        self._logs.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def evict(self, uid: str, message: str) -> None:
        """Fail a pod for what it uses itself."""
        self.pods[uid].evict(message)

    def take(self, uid: str, spec: Mapping[str, Any]) -> Mapping[str, str] | str:
        """Let a pod in: return its devices, or why it is turned away."""
        with self._lock:
            if self.refuse_next:
                reason, self.refuse_next = self.refuse_next, ""
                what = reason.removeprefix("OutOf")
                return (
                    f"{reason}: Pod was rejected: Node didn't have enough resource: {what}, "
                    "requested: 1000, used: 1000, capacity: 1000"
                )
            wanted = pod_requests(spec)
            used: dict[str, Any] = {}
            for other in self._spec_of.values():
                for what, much in pod_requests(other).items():
                    used[what] = used.get(what, 0) + much
            for what, much in wanted.items():
                room = amount(self._capacity.get(what, 0))
                if used.get(what, 0) + much > room:
                    numbers = f"requested: {much}, used: {used.get(what, 0)}, capacity: {room}"
                    words = f"Pod was rejected: Node didn't have enough resource: {what}, {numbers}"
                    return f"OutOf{what}: {words}"
            self._spec_of[uid] = spec
            taken = {it for gpus in self._given.values() for it in gpus}
            free = [gpu for gpu in self._gpus if gpu not in taken]
            mine = free[: int(wanted.get("nvidia.com/gpu", 0))]
            self._given[uid] = mine
            return {"NVIDIA_VISIBLE_DEVICES": ",".join(mine)} if mine else {}

    def give_back(self, uid: str) -> None:
        """Take a pod's share back."""
        with self._lock:
            self._given.pop(uid, None)
            self._spec_of.pop(uid, None)

    def hosts_file(self, pod: Mapping[str, Any], ip: str) -> Path:
        """Return a pod's own /etc/hosts, which is kept up to date."""
        metadata = pod["metadata"]
        file = self.directory / metadata["uid"] / "hosts"
        own = f"127.0.0.1 localhost\n{ip} {pod['spec'].get('hostname') or metadata['name']}\n"
        with self._lock:
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                self._name_files.append((file, own))
            self._write_names(file, own)
        return file

    def account_mounts(self, spec: Mapping[str, Any]) -> list[Mount]:
        """Return the mount of the service account's token, where pods have one."""
        if not (spec.get("automountServiceAccountToken", True) and self._account.is_dir()):
            return []
        place = mount_point("/var/run/secrets/kubernetes.io/serviceaccount")
        return [Mount(self._account, place, read_only=True)]

    def _register(self, labels: Mapping[str, str]) -> None:
        amounts = {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "100Gi", "pods": "110"}
        amounts |= self._capacity
        self._capacity = amounts
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": {
                    "kubernetes.io/hostname": self.name,
                    "kubernetes.io/os": "linux",
                    **labels,
                },
            },
            "spec": {},
        }
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": _ready(),
            # Without its name: a server would ask for logs by that, which nobody resolves.
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._logs.port}},
            "nodeInfo": {"kubeletVersion": "v1.36.2-emulator", "architecture": "amd64"},
        }
        self._client.post("/api/v1/nodes", node | {"status": status})
        self._client.patch(f"/api/v1/nodes/{self.name}/status", {"status": status})

    def _beat(self) -> None:
        while not self._stopped.wait(_BEAT_S):
            if not self.is_silent:
                with contextlib.suppress(httpx.HTTPError):
                    status = {"status": {"conditions": _ready()}}
                    self._client.patch(f"/api/v1/nodes/{self.name}/status", status)

    def _watch(self) -> None:
        query = {"fieldSelector": f"spec.nodeName={self.name}"}
        while not self._stopped.is_set():
            with contextlib.suppress(httpx.HTTPError, OSError):
                for event in self._client.watch("/api/v1/pods", query):
                    if self._stopped.is_set() or self.is_silent:
                        return
                    self._see(event)

    def _see(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "LISTED":
            for uid in set(self.pods) - set(event["uids"]):
                self._drop(uid)
            return None
        pod = event["object"]
        uid = pod["metadata"]["uid"]
        if event["type"] == "DELETED":
            return self._drop(uid)
        worker = self.pods.get(uid)
        if worker is None:
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                return None
            worker = self.pods[uid] = PodWorker(self, self._client, pod)
        return worker.see(pod)

    def _drop(self, uid: str) -> None:
        worker = self.pods.pop(uid, None)
        if worker is not None:
            threading.Thread(target=self._forget, args=(uid, worker), daemon=True).start()

    def _forget(self, uid: str, worker: PodWorker) -> None:
        worker.vanish()
        self.give_back(uid)
        with self._lock:
            self._name_files = [it for it in self._name_files if it[0].parent.name != uid]
        shutil.rmtree(self.directory / uid, ignore_errors=True)

    def _watch_names(self) -> None:
        """Know the pods that services without an address name, on whatever node."""
        while not self._stopped.is_set():
            with contextlib.suppress(httpx.HTTPError, OSError):
                for event in self._client.watch("/api/v1/pods", {}):
                    if self._stopped.is_set():
                        return
                    if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        self._see_name(event["object"], event["type"] == "DELETED")

    def _see_name(self, pod: Mapping[str, Any], is_gone: bool) -> None:
        spec, ip = pod["spec"], pod["status"].get("podIP")
        if not spec.get("subdomain") or not ip:
            return
        base = f"{spec.get('hostname')}.{spec['subdomain']}"
        namespace = pod["metadata"]["namespace"]
        names = [f"{base}.{namespace}.svc.cluster.local", f"{base}.{namespace}.svc", base]
        is_gone = is_gone or pod["status"].get("phase") in ("Succeeded", "Failed")
        with self._lock:
            before = dict(self._names)
            self._names.pop(ip, None)
            if not is_gone:
                self._names[ip] = names
            if before != self._names:
                for file, own in self._name_files:
                    self._write_names(file, own)

    def _write_names(self, file: Path, own: str) -> None:
        others = "".join(f"{ip} {' '.join(names)}\n" for ip, names in self._names.items())
        with contextlib.suppress(FileNotFoundError):
            file.write_text(own + others, encoding="utf-8")

    def _find_log(self, namespace: str, name: str, container: str) -> Log | str:
        for worker in list(self.pods.values()):
            metadata = worker.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, name):
                found = worker.log_state(container)
                if isinstance(found, str):
                    return found
                return Log(found.log, found.is_over)
        return f'pods "{name}" not found'


def _ready() -> list[dict[str, str]]:
    """Return the conditions of a node that is well."""
    return [
        {"type": kind, "status": status, "reason": reason, "message": message}
        | {"lastHeartbeatTime": now(), "lastTransitionTime": now()}
        for kind, status, reason, message in (
            (
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            (
                "DiskPressure",
                "False",
                "KubeletHasNoDiskPressure",
                "kubelet has no disk pressure",
            ),
            ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        )
    ]
