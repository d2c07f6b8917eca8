"""The kinds of objects that the emulator stores, and how the API names them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Kind(NamedTuple):
    """One kind of objects.

    Attributes:
        name: As in a manifest: ``Job``.
        plural: As in a path: ``jobs``.
        group: Empty for the core group.
        version: Of the group.
        is_namespaced: Whether its objects are in namespaces.
        subresources: Those whose paths are answered.
        short: What ``kubectl`` takes instead of the plural.
        is_stored: Whether objects are kept; reviews are answered only.
    """

    name: str
    plural: str
    group: str = ""
    version: str = "v1"
    is_namespaced: bool = True
    subresources: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    is_stored: bool = True

    @property
    def api_version(self) -> str:
        """As in a manifest: ``batch/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As in messages: ``jobs.batch``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """As in messages on invalid objects: ``Job.batch``."""
        return f"{self.name}.{self.group}" if self.group else self.name


_RBAC = "rbac.authorization.k8s.io"

POD = Kind("Pod", "pods", subresources=("status", "log", "eviction", "binding"), short=("po",))
JOB = Kind("Job", "jobs", "batch", subresources=("status",))
JOBSET = Kind("JobSet", "jobsets", "jobset.x-k8s.io", version="v1alpha2", subresources=("status",))
NODE = Kind("Node", "nodes", is_namespaced=False, subresources=("status",), short=("no",))
EVENT = Kind("Event", "events", short=("ev",))
QUOTA = Kind("ResourceQuota", "resourcequotas", subresources=("status",), short=("quota",))
NAMESPACE = Kind("Namespace", "namespaces", is_namespaced=False, short=("ns",))
CONFIG_MAP = Kind("ConfigMap", "configmaps", short=("cm",))
SECRET = Kind("Secret", "secrets")
SERVICE = Kind("Service", "services", short=("svc",))
LEASE = Kind("Lease", "leases", "coordination.k8s.io")

KINDS = (
    POD,
    JOB,
    JOBSET,
    CONFIG_MAP,
    SECRET,
    SERVICE,
    EVENT,
    NODE,
    NAMESPACE,
    QUOTA,
    Kind("ServiceAccount", "serviceaccounts", short=("sa",)),
    Kind("PersistentVolumeClaim", "persistentvolumeclaims", short=("pvc",)),
    Kind("LimitRange", "limitranges", short=("limits",)),
    LEASE,
    Kind("Role", "roles", _RBAC),
    Kind("RoleBinding", "rolebindings", _RBAC),
    Kind("ClusterRole", "clusterroles", _RBAC, is_namespaced=False),
    Kind("ClusterRoleBinding", "clusterrolebindings", _RBAC, is_namespaced=False),
    Kind("DaemonSet", "daemonsets", "apps", subresources=("status",), short=("ds",)),
    Kind(
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "authorization.k8s.io",
        is_namespaced=False,
        is_stored=False,
    ),
)

BY_PLURAL = {(kind.group, kind.plural): kind for kind in KINDS}
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def discovery(path: str) -> dict[str, Any] | None:
    """Return what the API says it has; None where ``path`` asks for something else."""
    groups = sorted({(kind.group, kind.version) for kind in KINDS if kind.group})
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(group, version) for group, version in groups],
        }
    for group, version in [("", "v1"), *groups]:
        if path == (f"/apis/{group}/{version}" if group else "/api/v1"):
            return {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": f"{group}/{version}" if group else version,
                "resources": [
                    entry for kind in KINDS if kind.group == group for entry in _entries(kind)
                ],
            }
    return None


def _group(group: str, version: str) -> dict[str, Any]:
    named = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [named], "preferredVersion": named}


def _entries(kind: Kind) -> list[dict[str, Any]]:
    whole = {
        "name": kind.plural,
        "singularName": kind.name.lower(),
        "namespaced": kind.is_namespaced,
        "kind": kind.name,
        "verbs": list(_VERBS) if kind.is_stored else ["create"],
        "shortNames": list(kind.short),
    }
    parts = [
        {
            "name": f"{kind.plural}/{part}",
            "singularName": "",
            "namespaced": kind.is_namespaced,
            "kind": kind.name if part != "eviction" else "Eviction",
            "verbs": ["get", "patch", "update"] if part == "status" else ["create", "get"],
        }
        for part in kind.subresources
    ]
    return [whole, *parts]
