"""What an administrator applies once: rights, a volume, a check of each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tarmac.errors import RequestError
from tarmac.kubernetes.answers import Right
from tarmac.kubernetes.pod_security import (
    NOBODY,
    container_context,
    home_variables,
    pod_context,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tarmac.kubernetes.answers import Object

# Where attempts on several nodes are JobSets.
JOBSET_RIGHTS: tuple[Right, ...] = tuple(
    Right(verb, "jobsets", "jobset.x-k8s.io") for verb in ("create", "get", "patch", "delete")
)

# What `tarmac run --on kubernetes` does in its namespace.
RIGHTS: tuple[Right, ...] = (
    *(
        Right(verb, "jobs", "batch")
        for verb in ("create", "get", "list", "watch", "patch", "delete")
    ),
    *(Right(verb, "pods") for verb in ("list", "watch", "delete")),
    Right("get", "pods/log"),
    Right("create", "configmaps"),
    *(Right(verb, "secrets") for verb in ("create", "get")),
    # By which pods of several nodes find each other.
    Right("create", "services"),
    *JOBSET_RIGHTS,
    # Why pods are not made; without it that is not said, and everything else is done.
    Right("list", "events"),
    # What the namespace never lets start, likewise.
    Right("list", "limitranges"),
    Right("list", "resourcequotas"),
    # Why Kueue does not admit them, likewise.
    Right("list", "workloads", "kueue.x-k8s.io"),
)

# The release that the manifest was written for: github.com/kubernetes/node-problem-detector.
_DETECTOR = "registry.k8s.io/node-problem-detector/node-problem-detector:v0.8.19"


def setup(
    namespace: str,
    *,
    service_account: str = "",
    user: str = "",
    group: str = "",
    volume_claim: str = "",
    size: str = "100Gi",
    storage_class: str = "",
) -> list[Object]:
    """Return what lets somebody run jobs in a namespace.

    Args:
        namespace: That is there already.
        service_account: Made, and given the rights: for a runner in the cluster.
        user: Given the rights, as Kubernetes calls them.
        group: Group that gets the rights, as Kubernetes names it. Empty: no group.
        volume_claim: The name of a claim that many nodes may write to; empty: none.
        size: Storage to request for the claim. Default ``100Gi``.
        storage_class: Storage class of the claim. Empty: the cluster's default.
    """
    manifests: list[Object] = []
    subjects = [user, f"group:{group}" if group else ""]
    if service_account:
        about = {"name": service_account, "namespace": namespace}
        manifests.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})
        subjects.append(f"system:serviceaccount:{namespace}:{service_account}")
    manifests.append(role(RIGHTS, "tarmac", namespace))
    manifests.append(role_binding("tarmac", namespace, *filter(None, subjects)))
    if volume_claim:
        manifests.append(volume(volume_claim, namespace, size, storage_class))
    return manifests


def role_for(missing: Iterable[Right], namespace: str, user: str = "") -> str:
    """Return the Role that gives rights, and what binds it, as YAML to apply.

    Args:
        missing: Rights that the Role grants.
        namespace: Namespace of the Role and of its binding.
        user: Who gets them, as Kubernetes calls them: also
            ``system:serviceaccount:NAMESPACE:NAME``. Empty: the Role alone.
    """
    name = "tarmac-missing"
    manifests = [role(tuple(missing), name, namespace)]
    if user:
        manifests.append(role_binding(name, namespace, user))
    return as_yaml(manifests)


def cluster_role_for(missing: Iterable[Right], user: str) -> str:
    """Return the ClusterRole that gives rights on what is in no namespace, and what binds it.

    Args:
        missing: Rights that the ClusterRole grants.
        user: Who gets them, as Kubernetes calls them.
    """
    name = "tarmac-missing"
    about = {"name": name}
    role_object = role(tuple(missing), name, "")
    binding = role_binding(name, "", user)
    bound = {**binding["roleRef"], "kind": "ClusterRole"}
    return as_yaml(
        [
            {**role_object, "kind": "ClusterRole", "metadata": about},
            {**binding, "kind": "ClusterRoleBinding", "metadata": about, "roleRef": bound},
        ]
    )


def role(rights: Sequence[Right], name: str, namespace: str) -> Object:
    """Return a Role with one rule for each resource."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource), []).append(right.verb)
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": namespace},
        "rules": [
            {"apiGroups": [group], "resources": [resource], "verbs": named}
            for (group, resource), named in verbs.items()
        ],
    }


def role_binding(name: str, namespace: str, *subjects: str) -> Object:
    """Return what gives a Role to users, ``group:`` groups and service accounts.

    Raises:
        RequestError: Nobody is named.
    """
    if not subjects:
        raise RequestError(
            "nobody is named who may run jobs",
            hint="Name one: --user NAME (kubectl auth whoami), --group NAME or --service-account "
            "NAME.",
        )
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [_subject(subject) for subject in subjects],
    }


def volume(name: str, namespace: str, size: str, storage_class: str = "") -> Object:
    """Return a claim of a volume for run directories, which many nodes write to."""
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": size}},
    }
    if storage_class:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def check_daemon_set(namespace: str, image: str, every_s: int = 3600) -> Object:
    """Return what runs ``tarmac check`` on each node again and again, asking for no GPU.

    Args:
        namespace: Namespace of the DaemonSet. The logs of its pods hold the reports.
        image: Container image that contains Tarmac.
        every_s: Between two checks of a node.
    """
    # It asks for no GPU, or jobs could not have it: NVIDIA's container toolkit reads this instead,
    # where it has not been told to ignore it.
    environment = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    script = f"while :; do tarmac check --quick; sleep {every_s}; done"
    return _daemon_set(
        "tarmac-check",
        namespace,
        {
            "name": "check",
            "image": image,
            "command": ["sh", "-c", script],
            "env": [*home_variables(), *environment],
            "securityContext": container_context(restricted=True),
            "resources": {
                "requests": {"cpu": "100m", "memory": "256Mi"},
                "limits": {"memory": "1Gi"},
            },
        },
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        pod={"securityContext": pod_context(NOBODY, restricted=True)},
    )


def problem_detector_set() -> list[Object]:
    """Return node-problem-detector: it tells the cluster what the kernel's log says of a node.

    It is privileged, so it goes where a cluster's own pods are.
    """
    name, namespace = "node-problem-detector", "kube-system"
    account = {"name": name, "namespace": namespace}
    pod = _daemon_set(
        name,
        namespace,
        {
            "name": name,
            "image": _DETECTOR,
            "command": [
                "/node-problem-detector",
                "--logtostderr",
                "--config.system-log-monitor=/config/kernel-monitor.json",
            ],
            "env": [
                {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
            ],
            # /dev/kmsg is read by the privileged alone.
            "securityContext": {"privileged": True},
            "resources": {
                "requests": {"cpu": "10m", "memory": "80Mi"},
                "limits": {"memory": "80Mi"},
            },
            "volumeMounts": [{"name": "kmsg", "mountPath": "/dev/kmsg", "readOnly": True}],
        },
        tolerations=[{"operator": "Exists", "effect": "NoSchedule"}],
        pod={
            "automountServiceAccountToken": True,
            "serviceAccountName": name,
            "volumes": [{"name": "kmsg", "hostPath": {"path": "/dev/kmsg"}}],
        },
    )
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            # Kubernetes has this role for it already.
            "roleRef": {
                "apiGroup": group,
                "kind": "ClusterRole",
                "name": "system:node-problem-detector",
            },
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
        pod,
    ]


def as_yaml(manifests: Iterable[Object]) -> str:
    """Return manifests as documents of one file for ``kubectl apply -f -``."""
    return yaml.safe_dump_all(
        [dict(manifest) for manifest in manifests], sort_keys=False, allow_unicode=True
    )


def _daemon_set(
    name: str,
    namespace: str,
    container: dict[str, Any],
    *,
    tolerations: list[dict[str, str]],
    pod: dict[str, Any],
) -> Object:
    labels = {"app.kubernetes.io/name": name}
    spec = {"automountServiceAccountToken": False, "enableServiceLinks": False}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    **spec,
                    **pod,
                    "tolerations": tolerations,
                    "containers": [container],
                },
            },
        },
    }


def _subject(name: str) -> dict[str, str]:
    if name.startswith("system:serviceaccount:"):
        namespace, _, account = name.removeprefix("system:serviceaccount:").partition(":")
        return {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    kind, name = ("Group", name[6:]) if name.startswith("group:") else ("User", name)
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
