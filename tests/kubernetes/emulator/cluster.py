"""A cluster of one's own: the API, its controllers and nodes, in this process."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import yaml

from .access import Access
from .certificates import server_context
from .control import Control
from .errors import ApiError, forbidden
from .garbage import GarbageCollector
from .hollow import HollowNodes
from .jobs import JobController
from .jobsets import JobSetController
from .kinds import JOB, NAMESPACE, POD, SECRET, Kind
from .kueue import Kueue
from .nodes import Nodes
from .objects import Objects
from .pod_security import violations
from .quota import Quotas
from .scheduler import Scheduler
from .server import Api, Server
from .store import Store, Thing
from .subresources import disrupt


class Emulator:
    """A cluster that runs until it is stopped; a context manager.

    Attributes:
        kubeconfig: A file with which clients find it.
        url: Of the API.
        namespace: In which the test's user works.
        nodes: To add, kill and remove nodes.
        faults: To have requests go wrong.
        requests: What the test's user has asked for.
        access: Tokens, and what the user may not do.
        admin: An HTTP client that may do everything, and whose requests are not counted.
        objects: What the cluster holds.
        hollow: To add nodes whose pods end without a process.
        kueue: To admit and evict Jobs with a queue's label.
        refusals: By the name of a webhook, what it says to each new Job and Pod.
        is_restricted: Whether the namespaces enforce the restricted Pod Security Standard.
    """

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 1,
        capacity: Mapping[str, str] | None = None,
        tls: bool = False,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.namespace = "default"
        self.access = Access()
        self.store = Store()
        self.objects = Objects(self.store)
        self.refusals: dict[str, str] = {}
        self.is_restricted = False
        quotas = Quotas(self.objects)
        self.hollow = HollowNodes(self.objects)
        self.kueue = Kueue(self.objects)
        self.objects.admission += [self.kueue.suspend_new, self._ask_webhooks]
        self.objects.admission += [self._ask_pod_security, quotas.admit]
        controllers = [
            JobController(self.objects),
            JobSetController(self.objects),
            Scheduler(self.objects),
            GarbageCollector(self.objects),
            quotas,
            self.hollow,
            self.kueue,
        ]
        self.control = Control(self.store, controllers)
        for name in ("default", "kube-system"):
            self.create_namespace(name)
        self.api = Api(self.objects, self.access)
        self.api.warnings = self._warnings
        self.faults, self.requests = self.api.faults, self.api.requests
        context = server_context(directory) if tls else None
        self._ca = directory / "ca.crt" if tls else None
        self._trust = ssl.create_default_context(cafile=str(self._ca)) if tls else None
        self.server = Server(self.api, context)
        self.faults.on_cut = self._wake
        self.url = self.server.url
        self.kubeconfig = directory / "kubeconfig"
        self.write_kubeconfig()
        if tls:
            self.write_account()
        self.admin = self._client(self.access.admin_token)
        self.control.start()
        self.nodes = Nodes(self.objects, self.url, self.access.admin_token, directory, self._trust)
        for number in range(nodes):
            self.nodes.add(f"n{number + 1}", capacity=capacity)

    @property
    def token(self) -> str:
        """What the test's user shows."""
        return self.access.token

    def write_account(self) -> None:
        """Give pods what a service account has: the test's user's token, and trust in the API."""
        account = self.directory / "account"
        account.mkdir(exist_ok=True)
        assert self._ca is not None
        for name, content in (
            ("ca.crt", self._ca.read_text(encoding="ascii")),
            ("namespace", self.namespace),
            ("token", self.token),
        ):
            (account / name).write_text(content, encoding="ascii")

    def write_kubeconfig(self) -> None:
        """Write the kubeconfig again, with the token that is good now."""
        place: dict[str, str] = {"server": self.url}
        if self._ca is not None:
            place["certificate-authority-data"] = base64.b64encode(self._ca.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "emulator",
            "clusters": [{"name": "emulator", "cluster": place}],
            "users": [{"name": "runner", "user": {"token": self.token}}],
            "contexts": [
                {
                    "name": "emulator",
                    "context": {
                        "cluster": "emulator",
                        "user": "runner",
                        "namespace": self.namespace,
                    },
                }
            ],
        }
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
        self.kubeconfig.chmod(0o600)

    def rotate_token(self) -> None:
        """Make the user's token bad, and write the new one into the kubeconfig."""
        self.access.rotate()
        self.write_kubeconfig()

    def create_namespace(self, name: str) -> None:
        """Make a namespace."""
        thing = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.objects.create(NAMESPACE, "", thing)

    def create_secret(self, name: str, **values: str) -> None:
        """Make a secret of the user's own, in the namespace."""
        thing = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "stringData": values,
        }
        self.objects.create(SECRET, self.namespace, thing)

    def claim(self, name: str) -> Path:
        """Return the directory of a volume that pods of the namespace claim by a name."""
        directory = self.directory / "claims" / self.namespace / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def pods(self, **labels: str) -> list[Thing]:
        """Return the pods of the namespace that have labels (``job_name`` for ``job-name``)."""
        wanted = {key.replace("_", "-"): value for key, value in labels.items()}
        return [
            pod
            for pod in self.store.list(POD, self.namespace)
            if wanted.items() <= (pod["metadata"].get("labels") or {}).items()
        ]

    def get(self, kind: Kind, name: str) -> Thing | None:
        """Return an object of the namespace; None where it is not there."""
        return self.store.get(kind, self.namespace, name)

    def evict(self, pod: str, *, disruption: bool = True) -> None:
        """End a pod from outside.

        Args:
            pod: Its name.
            disruption: True as eviction by the API does it, with the condition DisruptionTarget;
                False as a node does it that is short of what the pod itself uses too much of.
        """
        there = self.objects.read(POD, self.namespace, pod)
        if disruption:
            disrupt(self.objects, there, "EvictionByEvictionAPI", "Eviction API: evicting")
            self.objects.delete(POD, self.namespace, pod)
            return
        node = self.nodes.running[there["spec"]["nodeName"]]
        node.evict(
            there["metadata"]["uid"],
            "Pod ephemeral local storage usage exceeds the total limit of containers 10Gi. ",
        )

    def preempt(self, pod: str, by: str = "urgent") -> None:
        """End a pod as the scheduler does for one that is more important."""
        there = self.objects.read(POD, self.namespace, pod)
        words = "default-scheduler: preempting to accommodate a higher priority pod"
        disrupt(self.objects, there, "PreemptionByScheduler", words)
        self.objects.delete(POD, self.namespace, pod)

    def delete(self, kind: Kind, name: str, **options: Any) -> None:
        """Delete something by hand."""
        self.objects.delete(kind, self.namespace, name, **options)

    def nobody(self) -> httpx.Client:
        """Return a client of the test's user, who may do nothing from now on."""
        for group in ("", "batch"):
            self.access.deny("*", "*", group)
        return self._client(self.token)

    def compact(self) -> None:
        """Forget what became of objects so far: watches that resume from before get 410."""
        self.store.compact()

    def stop(self) -> None:
        """End all: no process, thread or mount stays."""
        self.nodes.stop()
        self.control.stop()
        self.server.stop()
        self.admin.close()

    def __enter__(self) -> Emulator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _client(self, token: str) -> httpx.Client:
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=30,
            verify=self._trust or True,
        )

    def _wake(self) -> None:
        with self.store.changed:
            self.store.changed.notify_all()

    def _ask_pod_security(self, kind: Kind, thing: Thing) -> None:
        found = [*violations(thing["spec"])] if self.is_restricted and kind is POD else []
        if found:
            name, words = thing["metadata"].get("name", ""), ", ".join(found)
            raise forbidden("pods", name, f'violates PodSecurity "restricted:latest": {words}')

    def _warnings(self, kind: Kind, thing: Thing) -> list[str]:
        """Return what the server warns of: it admits a Job, and none of its pods."""
        if not (self.is_restricted and kind is JOB):
            return []
        found = [*violations(thing["spec"]["template"]["spec"])]
        words = f'would violate PodSecurity "restricted:latest": {", ".join(found)}'
        return [words] if found else []

    def _ask_webhooks(self, kind: Kind, thing: Thing) -> None:
        if kind.plural in ("jobs", "pods"):
            for name, words in self.refusals.items():
                raise ApiError(
                    403,
                    f'admission webhook "{name}" denied the request: {words}',
                    reason="Forbidden",
                )
