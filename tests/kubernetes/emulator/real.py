"""A real cluster in the emulator's place, of whoever names its kubeconfig.

``TARMAC_TEST_KUBECONFIG=FILE pytest tests/kubernetes`` runs the tests that need no knob of the
emulator against it, in a namespace that is made for each test and deleted after it. What needs a
certain node, or a volume that this machine has mounted too, is left out there.

With ``TARMAC_TEST_NODES=here`` beside it the emulator's nodes join that cluster for each test: for
an API server without nodes, on this machine. Tests then run one after another (``-n 0``).
"""

from __future__ import annotations

import base64
import os
import secrets
import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest
import yaml

from waiting import wait_until

from .certificates import server_context
from .kinds import NAMESPACE, NODE, POD, SECRET, Kind
from .node.client import Client
from .node.kubelet import Kubelet

VARIABLE = "TARMAC_TEST_KUBECONFIG"
NODES = "TARMAC_TEST_NODES"
_WAIT_S = 60.0
_VOLUME = Kind("PersistentVolume", "persistentvolumes", is_namespaced=False)
_ACCOUNT = Kind("ServiceAccount", "serviceaccounts")
_CLAIM = Kind("PersistentVolumeClaim", "persistentvolumeclaims")


class RealCluster:
    """The part of ``Emulator`` that any cluster has.

    Attributes:
        kubeconfig: A file that names the test's namespace.
        url: Of the API.
        namespace: Made for the test.
        directory: Of the test.
        admin: A client with the rights that the given kubeconfig has.
        store: What the cluster holds, asked anew each time.
    """

    def __init__(
        self,
        given: Path,
        directory: Path,
        *,
        nodes: int = 0,
        capacity: Mapping[str, str] | None = None,
    ) -> None:
        config = yaml.safe_load(given.read_text(encoding="utf-8"))
        context = _named(config, "context", config["current-context"])
        place = _named(config, "cluster", context["cluster"])
        user = _named(config, "user", context["user"])
        self.url: str = place["server"]
        self.directory = directory
        trust = _trust(place, user, directory) if self.url.startswith("https") else True
        token = user.get("token", "")
        self._trust = trust
        self.admin = self._client(token)
        self.store = RealStore(self.admin)
        self.namespace = f"tarmac-test-{secrets.token_hex(4)}"
        self._create("/api/v1/namespaces", NAMESPACE, {"metadata": {"name": self.namespace}})
        context["namespace"] = self.namespace
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.touch(0o600)
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
        self._joined = RealNodes(self, token, trust) if os.environ.get(NODES) == "here" else None
        if self._joined is not None:
            self.wait_for_account()
            self._let_pods_in()
            for number in range(nodes):
                self._joined.add(f"n{number + 1}", capacity=capacity)

    @property
    def nodes(self) -> RealNodes:
        """The nodes that have joined."""
        if self._joined is None:
            pytest.skip(f"the nodes of a real cluster are its own; {NODES}=here has others join")
        return self._joined

    def claim(self, name: str) -> Path:
        """Make a volume that pods of the namespace claim by a name; return its directory."""
        directory = self.nodes.claims / self.namespace / name
        directory.mkdir(parents=True)
        common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        size = {"storage": "1Gi"}
        volume = f"{self.namespace}-{name}"
        spec = common | {
            "capacity": size,
            "hostPath": {"path": str(directory)},
            "claimRef": {"namespace": self.namespace, "name": name},
        }
        self._create(_path(_VOLUME), _VOLUME, {"metadata": {"name": volume}, "spec": spec})
        spec = common | {"resources": {"requests": size}, "volumeName": volume}
        path = _path(_CLAIM, self.namespace)
        self._create(path, _CLAIM, {"metadata": {"name": name}, "spec": spec})
        return directory

    def pods(self, **labels: str) -> list[dict[str, Any]]:
        """Return the pods of the namespace that have labels (``job_name`` for ``job-name``)."""
        wanted = {key.replace("_", "-"): value for key, value in labels.items()}
        return [
            pod
            for pod in self.store.list(POD, self.namespace)
            if wanted.items() <= (pod["metadata"].get("labels") or {}).items()
        ]

    def get(self, kind: Kind, name: str) -> dict[str, Any] | None:
        """Return an object of the namespace; None where it is not there."""
        return self.store.get(kind, self.namespace, name)

    def delete(
        self, kind: Kind, name: str, *, grace_s: int | None = None, propagation: str = ""
    ) -> None:
        """Delete something by hand."""
        body: dict[str, Any] = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        body |= {"propagationPolicy": propagation} if propagation else {}
        path = f"{_path(kind, self.namespace)}/{name}"
        self.admin.request("DELETE", path, json=body).raise_for_status()

    def create_secret(self, name: str, **values: str) -> None:
        """Make a secret of the user's own, in the namespace."""
        thing = {"metadata": {"name": name}, "stringData": values}
        self._create(_path(SECRET, self.namespace), SECRET, thing)

    def evict(self, pod: str, *, disruption: bool = True) -> None:
        """End a pod from outside, as ``Emulator.evict`` does."""
        if disruption:
            eviction = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod, "namespace": self.namespace},
            }
            path = f"{_path(POD, self.namespace)}/{pod}/eviction"
            self.admin.post(path, json=eviction).raise_for_status()
            return
        there = self.get(POD, pod)
        assert there is not None
        words = "Pod ephemeral local storage usage exceeds the total limit of containers 10Gi. "
        self.nodes.running[there["spec"]["nodeName"]].evict(there["metadata"]["uid"], words)

    def nobody(self) -> httpx.Client:
        """Return a client of a user who may do nothing."""
        accounts = _path(_ACCOUNT, self.namespace)
        self._create(accounts, _ACCOUNT, {"metadata": {"name": "nobody"}})
        made = self.admin.post(f"{accounts}/nobody/token", json={"spec": {}}).raise_for_status()
        return self._client(made.json()["status"]["token"])

    def wait_for_account(self) -> None:
        """Wait until pods can be made in the namespace at all."""
        account = f"{_path(_ACCOUNT, self.namespace)}/default"
        _until(lambda: self.admin.get(account).status_code == 200, "no account for pods")

    def stop(self) -> None:
        """Take the namespace away, with all in it, and the nodes that have joined."""
        for pod in self.pods():
            # Who has kept a pod for a test does not let it go again.
            if any(it.startswith("example.com/") for it in pod["metadata"].get("finalizers", ())):
                self.store.put(POD, {**pod, "metadata": {**pod["metadata"], "finalizers": []}})
        self.admin.delete(f"/api/v1/namespaces/{self.namespace}").raise_for_status()
        if self._joined is not None:
            self._joined.stop()
        self.admin.close()

    def _client(self, token: str) -> httpx.Client:
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            verify=self._trust,
            trust_env=False,
            timeout=60,
        )

    def _create(self, path: str, kind: Kind, thing: Mapping[str, Any]) -> None:
        whole = {"apiVersion": kind.api_version, "kind": kind.name, **thing}
        self.admin.post(path, json=whole).raise_for_status()

    def _let_pods_in(self) -> None:
        """Let pods ask for all that the test may ask for."""
        rights = "rbac.authorization.k8s.io"
        accounts = _path(_ACCOUNT, self.namespace)
        self._create(accounts, _ACCOUNT, {"metadata": {"name": "runner"}})
        binding = {
            "apiVersion": f"{rights}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "tests"},
            "roleRef": {"apiGroup": rights, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [
                {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
                for name in ("default", "runner")
            ],
        }
        bindings = f"/apis/{rights}/v1/namespaces/{self.namespace}/rolebindings"
        self.admin.post(bindings, json=binding).raise_for_status()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        _skip(name)


class RealStore:
    """What a real cluster holds."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def list(self, kind: Kind, namespace: str = "") -> list[dict[str, Any]]:
        """Return all objects of a kind, in a namespace or everywhere."""
        answer = _known(kind, self._client.get(_path(kind, namespace))).json()
        # Items of a list do not say what they are.
        named = {"apiVersion": kind.api_version, "kind": kind.name}
        return [named | it for it in answer["items"]]

    def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object; None where it is not there."""
        answer = self._client.get(f"{_path(kind, namespace)}/{name}")
        if answer.status_code == 404:
            return None
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def put(self, kind: Kind, thing: Mapping[str, Any]) -> None:
        """Replace an object, whatever became of it meanwhile."""
        metadata = {k: v for k, v in thing["metadata"].items() if k != "resourceVersion"}
        path = f"{_path(kind, metadata.get('namespace', ''))}/{metadata['name']}"
        _known(kind, self._client.put(path, json={**thing, "metadata": metadata}))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        _skip(name)


class RealNodes:
    """The emulator's nodes in a real cluster.

    Attributes:
        claims: Where the volumes are that pods claim.
        running: Those that run, by name.
    """

    def __init__(self, cluster: RealCluster, token: str, trust: ssl.SSLContext | bool) -> None:
        if not token:
            pytest.skip(f"{NODES}=here needs a token in the kubeconfig, for nodes to show")
        self._cluster, self._token, self._trust = cluster, token, trust
        self._certificate = server_context(cluster.directory)
        self._clients: list[Client] = []
        self._added: set[str] = set()
        self.claims = cluster.directory / "claims"
        self.running: dict[str, Kubelet] = {}

    def add(
        self,
        name: str,
        *,
        capacity: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Kubelet:
        """Start a node, and wait until pods may come."""
        cluster = self._cluster
        self._clients.append(Client(cluster.url, self._token, self._trust))
        node = Kubelet(
            self._clients[-1],
            name,
            cluster.directory / "nodes",
            claims=self.claims,
            account=cluster.directory / "account",
            server=cluster.url,
            capacity=capacity or {},
            labels=labels or {},
            certificate=self._certificate,
        )
        self.running[name] = node
        self._added.add(name)
        _until(lambda: self._is_open(name), f"node {name} is not let in")
        return node

    def kill(self, name: str, *, evicts: bool = True) -> None:
        """Have a node lose power; the cluster sees that in its own time."""
        del evicts
        self.running.pop(name).stop()

    def remove(self, name: str) -> None:
        """Take a node out of the cluster."""
        self.running.pop(name).stop()
        self._cluster.admin.delete(f"{_path(NODE)}/{name}").raise_for_status()

    def stop(self) -> None:
        """Take all out."""
        for name in list(self.running):
            self.running.pop(name).stop()
        for name in self._added:
            self._cluster.admin.delete(f"{_path(NODE)}/{name}")
        for volume in self._cluster.store.list(_VOLUME):
            name = volume["metadata"]["name"]
            if name.startswith(self._cluster.namespace):
                self._cluster.admin.delete(f"{_path(_VOLUME)}/{name}")
        for client in self._clients:
            client.close()

    def _is_open(self, name: str) -> bool:
        node = self._cluster.store.get(NODE, "", name)
        return node is not None and not node["spec"].get("taints")


def _skip(knob: str) -> NoReturn:
    pytest.skip(f"'{knob}' is a knob of the emulator, and {VARIABLE} names a real cluster")


def _known(kind: Kind, answer: httpx.Response) -> httpx.Response:
    """Return a good answer; skip where the cluster does not know the kind."""
    # Of a group that nobody serves there is no word of the API's own.
    unknown = ("the server could not find", "404 page not found")
    if answer.status_code == 404 and any(words in answer.text for words in unknown):
        pytest.skip(f"the real cluster knows no {kind.qualified}")
    return answer.raise_for_status()


def _path(kind: Kind, namespace: str = "") -> str:
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else "/api/v1"
    place = f"/namespaces/{namespace}" if kind.is_namespaced and namespace else ""
    return f"{base}{place}/{kind.plural}"


def _until(is_so: Callable[[], bool], otherwise: str) -> None:
    wait_until(is_so, f"an end to this: {otherwise}", seconds=_WAIT_S)


def _named(config: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(it[kind] for it in config[f"{kind}s"] if it["name"] == name)
    return found


def _trust(place: dict[str, Any], user: dict[str, Any], directory: Path) -> ssl.SSLContext:
    data = place.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=place.get("certificate-authority"),
        cadata=base64.b64decode(data).decode() if data else None,
    )
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile(dir=directory) as both:
            for part in ("client-certificate-data", "client-key-data"):
                both.write(base64.b64decode(user[part]) + b"\n")
            both.flush()
            context.load_cert_chain(both.name)
    elif "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    return context
