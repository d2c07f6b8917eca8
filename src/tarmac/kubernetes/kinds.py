"""The kinds of API objects that Tarmac handles, with their URL paths."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote


class Kind(NamedTuple):
    """A kind of API object.

    Attributes:
        version: API group and version, such as ``batch/v1``.
        plural: Plural name in URL paths, such as ``jobs``.
        namespaced: Whether objects are in a namespace.
    """

    version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str, name: str = "", version: str = "") -> str:
        """Return the URL path of all objects of a namespace, or of a named object."""
        version = version or self.version
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        where = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced else ""
        return f"{root}{where}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


KINDS: dict[str, Kind] = {
    "ConfigMap": Kind("v1", "configmaps"),
    "Event": Kind("v1", "events"),
    "Job": Kind("batch/v1", "jobs"),
    "JobSet": Kind("jobset.x-k8s.io/v1alpha2", "jobsets"),
    "LimitRange": Kind("v1", "limitranges"),
    "LocalQueue": Kind("kueue.x-k8s.io/v1beta1", "localqueues"),
    "Namespace": Kind("v1", "namespaces", namespaced=False),
    "Node": Kind("v1", "nodes", namespaced=False),
    "PersistentVolumeClaim": Kind("v1", "persistentvolumeclaims"),
    "Pod": Kind("v1", "pods"),
    "ResourceQuota": Kind("v1", "resourcequotas"),
    "Secret": Kind("v1", "secrets"),
    "SelfSubjectAccessReview": Kind(
        "authorization.k8s.io/v1", "selfsubjectaccessreviews", namespaced=False
    ),
    "Service": Kind("v1", "services"),
    "ServiceAccount": Kind("v1", "serviceaccounts"),
    "Workload": Kind("kueue.x-k8s.io/v1beta1", "workloads"),
}


def kind_of(name: str) -> Kind:
    """Return the kind with this name.

    Raises:
        ValueError: Tarmac does not handle this kind.
    """
    try:
        return KINDS[name]
    except KeyError:
        raise ValueError(f"unknown kind {name!r}, expected one of {', '.join(KINDS)}") from None
