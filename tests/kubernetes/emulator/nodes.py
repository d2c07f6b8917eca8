"""The nodes of a cluster, and what happens to them."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from .kinds import NODE, POD
from .node.client import Client
from .node.kubelet import Kubelet
from .objects import Objects
from .store import Thing, now
from .subresources import disrupt

_UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


class Nodes:
    """The nodes that run pods as processes, by name."""

    def __init__(
        self,
        objects: Objects,
        url: str,
        token: str,
        directory: Path,
        trust: ssl.SSLContext | None,
    ) -> None:
        self._objects = objects
        self._url, self._token, self._trust = url, token, trust
        self._directory = directory
        self._clients: dict[str, Client] = {}
        self.running: dict[str, Kubelet] = {}

    def add(
        self,
        name: str,
        *,
        capacity: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Kubelet:
        """Start a node.

        Args:
            name: Of the node.
            capacity: What it has, instead of 2 CPUs, 4Gi of memory and room for 110 pods.
            labels: Of the node, beside its host name.
        """
        client = Client(self._url, self._token, self._trust or True)
        self._clients[name] = client
        node = Kubelet(
            client,
            name,
            self._directory / "nodes",
            claims=self._directory / "claims",
            account=self._directory / "account",
            server=self._url,
            capacity=capacity or {},
            labels=labels or {},
        )
        self.running[name] = node
        return node

    def kill(self, name: str, *, evicts: bool = True) -> None:
        """Have a node lose power: its processes end, and it says nothing any more.

        The cluster sees it as it does after a minute of silence: not ready, with a taint for which
        its pods are deleted; these stay, terminating, until the node is removed.

        Args:
            name: Of the node.
            evicts: Whether that taint's time is over for pods that tolerate it for a while.
        """
        self._stop(name)
        node = self._objects.read(NODE, "", name)
        conditions = [
            it
            | {"status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now()}
            | {"message": "Kubelet stopped posting node status."}
            for it in node["status"]["conditions"]
        ]
        taints = [
            {**_UNREACHABLE, "timeAdded": now()},
            {"key": _UNREACHABLE["key"], "effect": "NoSchedule", "timeAdded": now()},
        ]
        spec = node["spec"] | {"taints": taints}
        status = node["status"] | {"conditions": conditions}
        self._objects.store.put(NODE, {**node, "spec": spec, "status": status})
        for pod in self._pods_of(name) if evicts else ():
            disrupt(
                self._objects,
                pod,
                "DeletionByTaintManager",
                "Taint manager: deleting due to NoExecute taint",
            )
            self._objects.delete(POD, pod["metadata"]["namespace"], pod["metadata"]["name"])

    def remove(self, name: str) -> None:
        """Take a node out of the cluster: its pods fail, and are deleted, as PodGC does it."""
        self._stop(name)
        node = self._objects.store.get(NODE, "", name)
        if node is not None:
            self._objects.store.remove(NODE, node)
        for pod in self._pods_of(name):
            metadata = pod["metadata"]
            disrupt(self._objects, pod, "DeletionByPodGC", "PodGC: node no longer exists")
            there = self._objects.store.get(POD, metadata["namespace"], metadata["name"])
            if there is not None:
                self._objects.set_status(POD, there, there["status"] | {"phase": "Failed"})
                self._objects.delete(POD, metadata["namespace"], metadata["name"], grace_s=0)

    def stop(self) -> None:
        """Stop all."""
        for name in list(self.running):
            self._stop(name)
        for client in self._clients.values():
            client.close()

    def _stop(self, name: str) -> None:
        node = self.running.pop(name, None)
        if node is not None:
            node.stop()

    def _pods_of(self, name: str) -> list[Thing]:
        return [
            pod
            for pod in self._objects.store.list(POD)
            if pod["spec"].get("nodeName") == name
            and pod["status"].get("phase") not in ("Succeeded", "Failed")
        ]
