"""Manifests that an administrator applies once: rights, a volume, a check of each node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from tarmac.errors import RequestError
from tarmac.kubernetes.answers import Object, Right
from tarmac.kubernetes.pod_security import (
    NOBODY,
    container_context,
    home_variables,
    pod_context,
)

# Needed where attempts on several nodes are JobSets.
JOBSET_RIGHTS: tuple[Right, ...] = tuple(
    Right(verb, "jobsets", "jobset.x-k8s.io") for verb in ("create", "get", "patch", "delete")
)

# The rights that `tarmac run --on kubernetes` needs in its namespace.
RIGHTS: tuple[Right, ...] = (
    *(
        Right(verb, "jobs", "batch")
        for verb in ("create", "get", "list", "watch", "patch", "delete")
    ),
    *(Right(verb, "pods") for verb in ("list", "watch", "delete")),
    Right("get", "pods/log"),
    Right("create", "configmaps"),
    *(Right(verb, "secrets") for verb in ("create", "get")),
    # Pods on several nodes find each other through a Service.
    Right("create", "services"),
    *JOBSET_RIGHTS,
    # Optional: explains why pods are not created.
    Right("list", "events"),
    # Optional: finds pods that exceed the bounds of the namespace.
    Right("list", "limitranges"),
    Right("list", "resourcequotas"),
    # Optional: explains why Kueue does not admit a Job.
    Right("list", "workloads", "kueue.x-k8s.io"),
)

# The manifest below is for this release: github.com/kubernetes/node-problem-detector.
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
    """Return the manifests that let users or a service account run jobs in a namespace.

    Args:
        namespace: Namespace of the manifests, which must exist.
        service_account: Service account to create and to give the rights, for a runner in the
            cluster. Empty: none.
        user: User that gets the rights, as Kubernetes names it. Empty: no user.
        group: Group that gets the rights, as Kubernetes names it. Empty: no group.
        volume_claim: Name of a claim that many nodes may write to. Empty: no claim.
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
    """Return a Role that grants rights and its RoleBinding, as YAML to apply.

    Args:
        missing: Rights that the Role grants.
        namespace: Namespace of the Role and of its binding.
        user: User that gets the rights, as Kubernetes names it, or a service account as
            ``system:serviceaccount:NAMESPACE:NAME``. Empty: no RoleBinding.
    """
    name = "tarmac-missing"
    manifests = [role(tuple(missing), name, namespace)]
    if user:
        manifests.append(role_binding(name, namespace, user))
    return as_yaml(manifests)


def cluster_role_for(missing: Iterable[Right], user: str) -> str:
    """Return a ClusterRole for resources without a namespace and its binding, as YAML to apply.

    Args:
        missing: Rights that the ClusterRole grants.
        user: User that gets the rights, as Kubernetes names it.
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
    """Return a RoleBinding for users, ``group:NAME`` groups and service accounts.

    Raises:
        RequestError: There is no subject.
    """
    if not subjects:
        raise RequestError(
            "no user or group is named",
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
    """Return a claim of a ReadWriteMany volume for run directories."""
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
    """Return a DaemonSet that runs ``tarmac check`` periodically on each node.

    Args:
        namespace: Namespace of the DaemonSet. The logs of its pods hold the reports.
        image: Container image that contains Tarmac.
        every_s: Seconds between two checks of a node. Default 3600.
    """
    # A GPU request would take the GPU away from jobs. NVIDIA's container toolkit makes all GPUs
    # visible by this variable instead, unless it is configured to ignore the variable.
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
    """Return node-problem-detector, which reports problems in a node's kernel log to the cluster.

    Its pods are privileged, so they run in ``kube-system``.
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
            # Only privileged containers may read /dev/kmsg.
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
            # Kubernetes ships this role.
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
