"""Operations on the objects of a namespace: create, get, list, patch, delete, watch, read logs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from tarmac.errors import TarmacError
from tarmac.kubernetes.answers import (
    Listed,
    NoAnswer,
    Object,
    Refused,
    Right,
    Version,
    in_form,
    name_of,
)
from tarmac.kubernetes.connection import PATIENCE_S, Connection
from tarmac.kubernetes.kinds import kind_of
from tarmac.kubernetes.kubeconfig import find_place
from tarmac.kubernetes.watch import SILENCE_S, Watch

T = TypeVar("T")

# Objects per page of a list, as in client-go.
_PAGE = 500
# Tries of a list whose continue token expires (410).
_LISTS = 3
_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


def connect(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    namespace: str | None = None,
    environ: Mapping[str, str] | None = None,
    patience_s: float = PATIENCE_S,
) -> Cluster:
    """Return a cluster with its login, without sending a request.

    ``version()`` checks that the cluster answers.

    Args:
        kubeconfig: Path of a kubeconfig. Default: KUBECONFIG, ~/.kube/config or the pod's
            service account.
        context: Context of the kubeconfig. Default: the current context.
        namespace: Namespace of the objects. Default: the context's namespace.
        environ: Environment variables to read. Default: this process's environment.
        patience_s: Seconds that one request may take, including all retries.

    Raises:
        RequestError: There is no kubeconfig, or an entry that it names is missing.
    """
    environ = os.environ if environ is None else environ
    place = find_place(environ, kubeconfig=kubeconfig, context=context, namespace=namespace)
    return Cluster(Connection(place, environ, patience_s))


class Cluster:
    """A namespace of a cluster, seen with one login. Threads may share it.

    Attributes:
        namespace: Namespace of the objects, from the kubeconfig or the pod.
        title: Name of the cluster in messages: the context and the server.
        context: Context in the kubeconfig. Empty in a pod.
        server: URL of the server as known outside the cluster. Empty in a pod.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.namespace = connection.place.namespace
        self.title = connection.place.title
        self.context = connection.place.context
        self.server = connection.place.server if self.context else ""

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    def version(self) -> Version | NoAnswer:
        """Request the server's version, without retries."""
        answer = self._connection.ask("GET", "/version", patience_s=0)
        if isinstance(answer, Refused):
            return self._connection.silence(f"does not say its version: {answer.message}")
        if isinstance(answer, NoAnswer):
            return answer
        text = str(answer.get("gitVersion"))
        match = re.match(r"v(\d+)\.(\d+)", text)
        if match is None:
            return self._connection.silence(f"is not Kubernetes: its version is {text!r}")
        return Version(int(match[1]), int(match[2]), text)

    def create(self, manifest: Object, *, dry_run: bool = False) -> Object | Refused | NoAnswer:
        """Create an object; the server refuses unknown fields.

        Args:
            manifest: Object with apiVersion, kind and a unique name.
            dry_run: Check schemas, quota, webhooks and rights, but create nothing.
        """
        kind = kind_of(manifest["kind"])
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        path = kind.path(self.namespace, version=manifest["apiVersion"])
        return self._connection.ask("POST", path, query=query, body=manifest)

    def get(self, kind: str, name: str) -> Object | Refused | NoAnswer | None:
        """Return an object, or None if it does not exist."""
        answer = self._connection.ask("GET", kind_of(kind).path(self.namespace, name))
        return None if _is_absent(answer) else answer

    def list(self, kind: str, *, labels: str = "", fields: str = "") -> Listed | Refused | NoAnswer:
        """Return all objects of a kind that match a label selector and a field selector."""
        path = kind_of(kind).path(self.namespace)
        selectors = {"labelSelector": labels} if labels else {}
        if fields:
            selectors["fieldSelector"] = fields
        for _ in range(_LISTS):
            listed = self._list_once(path, selectors)
            if not (isinstance(listed, Refused) and listed.status == 410):
                break
        return listed

    def _list_once(self, path: str, selectors: Mapping[str, str]) -> Listed | Refused | NoAnswer:
        items: list[Object] = []
        query = {"limit": str(_PAGE), **selectors}
        while True:
            answer = self._connection.ask("GET", path, query=query)
            if isinstance(answer, (Refused, NoAnswer)):
                return answer
            about = answer.get("metadata")
            if not isinstance(about, dict) or "resourceVersion" not in about:
                return self._connection.silence(f"GET {path}: answered with no list")
            try:
                items += answer.get("items") or ()
                for item in items:
                    name_of(item)
            except (TypeError, TarmacError):
                return self._connection.silence(f"GET {path}: answered with no list of objects")
            if not about.get("continue"):
                return Listed(tuple(items), str(about["resourceVersion"]))
            query["continue"] = str(about["continue"])

    def delete(
        self,
        kind: str,
        name: str,
        *,
        grace_s: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> Refused | NoAnswer | None:
        """Delete an object; a missing object counts as deleted.

        Args:
            kind: Kind of the object, such as ``Pod`` or ``Job``.
            name: Name of the object, in this namespace.
            grace_s: Seconds between TERM and KILL. None: the pod's own grace period. 0 removes
                the pod object at once, even if a lost node may still run the pod.
            propagation: Deletion policy for the objects that it owns.
        """
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        }
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        path = kind_of(kind).path(self.namespace, name)
        answer = self._connection.ask("DELETE", path, body=options)
        if isinstance(answer, (Refused, NoAnswer)) and not _is_absent(answer):
            return answer
        return None

    def patch(
        self,
        kind: str,
        name: str,
        patch: Object | Sequence[Object],
        *,
        how: Literal["merge", "json", "strategic"] = "merge",
    ) -> Object | Refused | NoAnswer:
        """Patch an object; the server refuses unknown fields."""
        return self._connection.ask(
            "PATCH",
            kind_of(kind).path(self.namespace, name),
            query={"fieldValidation": "Strict"},
            body=patch,
            content_type=_PATCHES[how],
        )

    def log(
        self, pod: str, container: str, *, follow: bool = False, since: str | None = None
    ) -> Iterator[bytes] | Refused | NoAnswer:
        """Return the log of a container as an iterator of chunks.

        Args:
            pod: Name of the pod, in this namespace.
            container: Name of the container, in the pod.
            follow: Stream new output until the container ends.
            since: Timestamp in Kubernetes' format; older output is left out.

        The iterator raises ConnectionError if the log breaks off before its end.
        """
        query = {"container": container} | ({"follow": "true"} if follow else {})
        if since is not None:
            query["sinceTime"] = since
        path = kind_of("Pod").path(self.namespace, pod) + "/log"
        return self._connection.read(path, query)

    @in_form
    def may(self, *rights: Right) -> tuple[Right, ...] | NoAnswer:
        """Return the rights that this login lacks in the namespace."""
        missing: list[Right] = []
        for right in rights:
            resource, _, subresource = right.resource.partition("/")
            attributes = {
                "namespace": self.namespace,
                "verb": right.verb,
                "group": right.group,
                "resource": resource,
            } | ({"subresource": subresource} if subresource else {})
            answer = self.create(
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": attributes},
                }
            )
            if isinstance(answer, NoAnswer):
                return answer
            if isinstance(answer, Refused):
                return self._connection.silence(f"does not say what we may do: {answer.message}")
            if not (answer.get("status") or {}).get("allowed"):
                missing.append(right)
        return tuple(missing)

    @overload
    def watch(self, kind: str, labels: str = ..., *, silence_s: float = ...) -> Watch[Object]: ...

    @overload
    def watch(
        self, kind: str, labels: str = ..., *, keep: Callable[[Object], T], silence_s: float = ...
    ) -> Watch[T]: ...

    def watch(
        self,
        kind: str,
        labels: str = "",
        *,
        keep: Callable[[Object], Any] | None = None,
        silence_s: float = SILENCE_S,
    ) -> Watch[Any]:
        """Return a watch of all objects of a kind; it starts as a context manager.

        Args:
            kind: Kind of the objects, such as ``Pod`` or ``Job``.
            labels: Label selector, such as ``app=x``. Empty: all objects.
            keep: Function that returns the value to store for an object. With thousands of pods,
                store few fields. Default: the whole object.
            silence_s: Seconds without an event or bookmark until all objects are listed again.
        """
        return Watch(
            self._connection,
            kind_of(kind).path(self.namespace),
            labels,
            list_all=lambda: self.list(kind, labels=labels),
            keep=keep or (lambda item: item),
            silence_s=silence_s,
        )


def _is_absent(answer: object) -> bool:
    """Whether the answer is that the object does not exist; a missing kind does not count."""
    return isinstance(answer, Refused) and (answer.status, answer.reason) == (404, "NotFound")
