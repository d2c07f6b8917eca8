"""A cluster's namespace: create, look, list, delete, watch. Knows nothing of jobs' meaning."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from tarmac.errors import TarmacError
from tarmac.kubernetes.answers import Listed, Refused, Silence, Version, in_form, name_of
from tarmac.kubernetes.connection import PATIENCE_S, Connection
from tarmac.kubernetes.kinds import kind_of
from tarmac.kubernetes.kubeconfig import find_place
from tarmac.kubernetes.watch import SILENCE_S, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tarmac.kubernetes.answers import Object, Right

T = TypeVar("T")

# What one answer to a list may hold: client-go's own page size.
_PAGE = 500
# A list whose pages grow too old is begun again so often.
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
    """Find a cluster and a login. Nothing is sent yet: ``version()`` says whether it answers.

    Args:
        kubeconfig: Instead of KUBECONFIG, ~/.kube/config or the pod's service account.
        context: Instead of the kubeconfig's current one.
        namespace: Instead of the context's.
        environ: Instead of this process's.
        patience_s: How long one question may take with all its repetitions.

    Raises:
        RequestError: There is no kubeconfig, or it names what is not there.
    """
    environ = os.environ if environ is None else environ
    place = find_place(environ, kubeconfig=kubeconfig, context=context, namespace=namespace)
    return Cluster(Connection(place, environ, patience_s))


class Cluster:
    """A namespace of a cluster, as one login sees it. Threads may share it.

    Attributes:
        namespace: Namespace of the objects, from the kubeconfig or the pod.
        title: Name of the cluster in messages: the context and the server.
        context: The kubeconfig's; empty in a pod.
        server: Its URL, as it is known outside; empty in a pod.
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

    def version(self) -> Version | Silence:
        """Ask once which Kubernetes it is."""
        answer = self._connection.ask("GET", "/version", patience_s=0)
        if isinstance(answer, Refused):
            return self._connection.silence(f"does not say its version: {answer.message}")
        if isinstance(answer, Silence):
            return answer
        text = str(answer.get("gitVersion"))
        match = re.match(r"v(\d+)\.(\d+)", text)
        if match is None:
            return self._connection.silence(f"is no Kubernetes: its version is {text!r}")
        return Version(int(match[1]), int(match[2]), text)

    def create(self, manifest: Object, *, dry_run: bool = False) -> Object | Refused | Silence:
        """Create an object; a field that the server does not know is refused.

        Args:
            manifest: With apiVersion, kind and a name of its own.
            dry_run: Ask all that decides (schemas, quota, webhooks, rights), and create nothing.
        """
        kind = kind_of(manifest["kind"])
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        path = kind.path(self.namespace, version=manifest["apiVersion"])
        return self._connection.ask("POST", path, query=query, body=manifest)

    def get(self, kind: str, name: str) -> Object | Refused | Silence | None:
        """Return an object; None where there is none of that name."""
        answer = self._connection.ask("GET", kind_of(kind).path(self.namespace, name))
        return None if _is_absent(answer) else answer

    def list(self, kind: str, *, labels: str = "", fields: str = "") -> Listed | Refused | Silence:
        """Return all objects of a kind that a selector of labels (and one of fields) chooses."""
        path = kind_of(kind).path(self.namespace)
        selectors = {"labelSelector": labels} if labels else {}
        if fields:
            selectors["fieldSelector"] = fields
        for _ in range(_LISTS):
            listed = self._list_once(path, selectors)
            if not (isinstance(listed, Refused) and listed.status == 410):
                break
        return listed

    def _list_once(self, path: str, selectors: Mapping[str, str]) -> Listed | Refused | Silence:
        items: list[Object] = []
        query = {"limit": str(_PAGE), **selectors}
        while True:
            answer = self._connection.ask("GET", path, query=query)
            if isinstance(answer, (Refused, Silence)):
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
    ) -> Refused | Silence | None:
        """Delete an object; that there is none any more is done as well.

        Args:
            kind: Kind of the object, such as ``Pod`` or ``Job``.
            name: Name of the object, in this namespace.
            grace_s: Between TERM and KILL; None: as the pod says. 0 forgets a pod at once, also
                where its node is lost and may run it still.
            propagation: What becomes of that which it owns.
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
        if isinstance(answer, (Refused, Silence)) and not _is_absent(answer):
            return answer
        return None

    def patch(
        self,
        kind: str,
        name: str,
        patch: Object | Sequence[Object],
        *,
        how: Literal["merge", "json", "strategic"] = "merge",
    ) -> Object | Refused | Silence:
        """Change an object."""
        return self._connection.ask(
            "PATCH",
            kind_of(kind).path(self.namespace, name),
            query={"fieldValidation": "Strict"},
            body=patch,
            content_type=_PATCHES[how],
        )

    def log(
        self, pod: str, container: str, *, follow: bool = False, since: str | None = None
    ) -> Iterator[bytes] | Refused | Silence:
        """Return what a container has written, in pieces, as they come.

        Args:
            pod: Name of the pod, in this namespace.
            container: Name of the container, in the pod.
            follow: Go on until the container ends.
            since: A time as Kubernetes writes it: only what came after it.

        The iterator raises ConnectionError where the log breaks off before its end.
        """
        query = {"container": container} | ({"follow": "true"} if follow else {})
        if since is not None:
            query["sinceTime"] = since
        path = kind_of("Pod").path(self.namespace, pod) + "/log"
        return self._connection.read(path, query)

    @in_form
    def may(self, *rights: Right) -> tuple[Right, ...] | Silence:
        """Ask which of these one may not do in the namespace."""
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
            if isinstance(answer, Silence):
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
        """Return all objects of a kind, kept up to date; enter it to begin.

        Args:
            kind: Kind of the objects, such as ``Pod`` or ``Job``.
            labels: Label selector, such as ``app=x``. Empty: all objects.
            keep: What is kept of each: with thousands of pods, keep few fields.
            silence_s: So long without a word, and all is listed again.
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
    """Whether the cluster says that there is no such object; a kind that lacks is no such word."""
    return isinstance(answer, Refused) and (answer.status, answer.reason) == (404, "NotFound")
