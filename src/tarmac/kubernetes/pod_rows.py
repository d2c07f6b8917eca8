"""Kubernetes' reasons for waiting and ended pods, with Tarmac's cause and words for each.

Messages keep Kubernetes' reason so that users can look it up in its documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

Cause: TypeAlias = Literal[
    "exit",
    "signal",
    "timeout",
    "memory",
    "start",
    "cancelled",
    "preempted",
    "node",
    "evicted",
    "lost",
]


class Wait(NamedTuple):
    """A reason why a pod waits.

    Attributes:
        matter: Subject of the wait, as in `PodState.matter`. Empty: nothing is wrong.
        words: Description of the wait for users, without the cluster's message.
        limit_s: Seconds after which such a pod fails. None: never. 0: at once.
    """

    matter: str
    words: str
    limit_s: float | None = None


class End(NamedTuple):
    """A reason why a pod ended without a result of its program."""

    cause: Cause
    words: str
    is_disturbance: bool = False


# Container reasons of the kubelet (pkg/kubelet/images/types.go,
# kuberuntime/kuberuntime_container.go) and reasons of the condition PodScheduled.
# The limit of 300 s lets a registry recover, but bounds the wait for a wrong image name.
WAITS: Mapping[str, Wait] = {
    "Unschedulable": Wait("room", "waits for a node with free resources"),
    "SchedulingGated": Wait("room", "is held by a scheduling gate, such as a queue's"),
    "ContainerCreating": Wait("", "its node is fetching the image and volumes"),
    "PodInitializing": Wait("", "is being prepared on its node"),
    "ErrImagePull": Wait("image", "its image cannot be pulled", 300),
    "ImagePullBackOff": Wait("image", "its image cannot be pulled", 300),
    "ErrImageNeverPull": Wait(
        "image", "its image is not on the node and may not be pulled (imagePullPolicy Never)", 300
    ),
    "InvalidImageName": Wait("image", "its image name is invalid; correct `image`", 0),
    "ImageInspectError": Wait("image", "its image is broken on the node", 300),
    "RegistryUnavailable": Wait("image", "the registry of its image does not answer"),
    "CreateContainerConfigError": Wait(
        "configuration", "its configuration is invalid, or a Secret or ConfigMap is missing", 120
    ),
    "CreateContainerError": Wait("start", "its container cannot be created", 0),
    "RunContainerError": Wait("start", "its container cannot be started", 0),
    "CrashLoopBackOff": Wait("start", "it restarts repeatedly; its restartPolicy was changed", 0),
}

# Reasons of the condition DisruptionTarget: kubernetes.io, "Disruptions".
DISRUPTIONS: Mapping[str, End] = {
    "PreemptionByScheduler": End(
        "preempted", "was preempted by a pod of higher priority", is_disturbance=True
    ),
    "EvictionByEvictionAPI": End(
        "evicted", "was evicted, as when a node is drained", is_disturbance=True
    ),
    "DeletionByTaintManager": End(
        "node", "its node does not answer or has a taint", is_disturbance=True
    ),
    "DeletionByPodGC": End("node", "its node no longer exists", is_disturbance=True),
    "TerminationByKubelet": End(
        "evicted", "its node shut down or ran short of memory or disk", is_disturbance=True
    ),
}

# Reasons of pods and of terminated containers.
ENDS: Mapping[str, End] = {
    "OOMKilled": End("memory", "used more memory than its limit; raise `memory`"),
    "Evicted": End("exit", "used more disk than its limit; request more or write less"),
    "OutOfcpu": End("evicted", "its node had too few free resources", is_disturbance=True),
    "OutOfmemory": End("evicted", "its node had too few free resources", is_disturbance=True),
    "OutOfpods": End("evicted", "its node had too few free resources", is_disturbance=True),
    "NodeAffinity": End("evicted", "its node no longer matches the pod", is_disturbance=True),
    "UnexpectedAdmissionError": End(
        "evicted", "its node could not allocate the devices", is_disturbance=True
    ),
    "NodeLost": End("node", "its node does not answer", is_disturbance=True),
    "NodeShutdown": End("evicted", "its node shut down", is_disturbance=True),
    "Terminated": End("evicted", "its node shut down", is_disturbance=True),
    "ContainerStatusUnknown": End(
        "node", "its node no longer knows its result", is_disturbance=True
    ),
    "StartError": End("start", "its command cannot be started"),
    "ContainerCannotRun": End("start", "its command cannot be started"),
    "DeadlineExceeded": End(
        "timeout", "ran longer than an activeDeadlineSeconds that Tarmac did not set"
    ),
}
