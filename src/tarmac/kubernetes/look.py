"""The Job that checks a node: its pod and the GPUs that the pod requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tarmac.kubernetes.pod_security import (
    NOBODY,
    container_context,
    home_variables,
    pod_context,
)
from tarmac.processes import python_command

if TYPE_CHECKING:
    from tarmac.kubernetes.nodes import ClusterNode

LABEL = "tarmac.dev/look"
CONTAINER = "look"

# The cluster removes a finished Job after this time, even if the survey was killed.
_KEPT_S = 300
_GRACE_S = 5

# PyTorch and a CUDA context on each GPU need memory. A limit reserves none.
_MEMORY_REQUEST, _MEMORY_LIMIT = "256Mi", "8Gi"

# The program writes its report to the termination log. If it fails, the last line of its output
# goes there instead.
_SCRIPT = """\
said=$("$@" 2>&1)
code=$?
printf '%s\\n' "$said" >&2
[ "$code" = 0 ] || printf '%s\\n' "$said" | tail -n 1 > /dev/termination-log
exit "$code"
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Look:
    """The options of the pods that check nodes.

    Attributes:
        image: Container image that contains Tarmac.
        python: Python interpreter in the image that has Tarmac. Default ``python3``.
        queue: Name of a Kueue queue. Empty: no queue.
        node_selector: Labels that nodes must have.
        tolerations: Tolerations of the pods, as in a pod's spec.
        gpu_resource: Resource name of the GPUs to check. Empty: all GPUs.
        pull_secrets: Names of Secrets with logins of registries.
        priority_class: Priority class of the pods. Empty: the cluster's default.
        service_account: Service account of the pods. Empty: the namespace's default.
        restricted: Whether the pods comply with the restricted Pod Security Standard. Otherwise
            they run as the image's user.
    """

    image: str
    python: str = "python3"
    queue: str = ""
    node_selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tolerations: Sequence[Mapping[str, str]] = ()
    gpu_resource: str = ""
    pull_secrets: Sequence[str] = ()
    priority_class: str = ""
    service_account: str = ""
    restricted: bool = True


def look_manifest(
    name: str, mark: str, node: ClusterNode, look: Look, patience_s: float
) -> dict[str, Any]:
    """Return the manifest of the Job that checks a node.

    Args:
        name: Name of the new Job, unique in its namespace.
        mark: Label value that all Jobs of this survey share.
        node: Node that the pod is bound to by its affinity.
        look: Image, queue, tolerations and other options of the pod.
        patience_s: Seconds that the survey waits for answers. The Job ends 300 s later.
    """
    labels = {"app.kubernetes.io/name": "tarmac-look", LABEL: mark}
    # Unlike nodeName, an affinity lets the scheduler check whether the node has room.
    here = {"key": "metadata.name", "operator": "In", "values": [node.name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    requests = asked_gpus(node)
    gpus = {resource: str(count) for resource, count in requests.items()}
    words = (str(sum(requests.values())), "/dev/termination-log")
    program = python_command("tarmac.checks.pod_look", *words, python=look.python)
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _GRACE_S,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        "tolerations": [{**toleration} for toleration in look.tolerations],
        "containers": [
            {
                "name": CONTAINER,
                "image": look.image,
                "command": ["sh", "-c", _SCRIPT, "sh", *program],
                "resources": {
                    "requests": {"cpu": "100m", "memory": _MEMORY_REQUEST, **gpus},
                    "limits": {"memory": _MEMORY_LIMIT, **gpus},
                },
                "env": home_variables() if look.restricted else [],
                "securityContext": container_context(restricted=look.restricted),
            }
        ],
    }
    if look.restricted:
        pod["securityContext"] = pod_context(NOBODY, restricted=True)
    if look.pull_secrets:
        pod["imagePullSecrets"] = [{"name": secret} for secret in look.pull_secrets]
    if look.priority_class:
        pod["priorityClassName"] = look.priority_class
    if look.service_account:
        pod["serviceAccountName"] = look.service_account
    queue = {"kueue.x-k8s.io/queue-name": look.queue} if look.queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels | queue},
        "spec": {
            "backoffLimit": 0,
            # If the survey is killed, a queued pod must not start an hour later.
            "activeDeadlineSeconds": int(patience_s) + _KEPT_S,
            "ttlSecondsAfterFinished": _KEPT_S,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def asked_gpus(node: ClusterNode) -> dict[str, int]:
    """Return the GPUs that a pod requests on a node: NVIDIA GPUs, the only ones it can check."""
    return {
        # Several shared (time-sliced) GPUs may be the same physical GPU.
        resource: 1 if node.is_shared else count
        for resource, count in node.gpus.items()
        if resource.startswith("nvidia.com/")
    }
