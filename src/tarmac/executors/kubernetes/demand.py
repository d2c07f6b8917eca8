"""A task's demand on Kubernetes as plain values; tasks of equal demands share a Job."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.errors import RequestError
from tarmac.executors.kubernetes.options import KubernetesOptions, options_of
from tarmac.executors.kubernetes.stores import refuse_unreachable_files, store_keys
from tarmac.kubernetes import default_user
from tarmac.tasks.model import BuiltEnvironment, Container, Secret
from tarmac.tasks.plan import LAUNCH, Task


@dataclasses.dataclass(frozen=True)
class Demand:
    """The needs of each pod of a Job.

    Attributes:
        image: Image of the task's container, such as ``python:3.12-slim``.
        cpus: CPU cores of each pod; may be a fraction.
        memory: Bytes that the program may take; None leaves it unlimited.
        shm: Bytes of shared memory; None leaves the runtime's own 64 MiB.
        gpus: Whole GPUs of each pod. Default 0.
        gpu_resource: The cluster's name for its GPUs, such as ``nvidia.com/gpu``; empty for the
            only GPU resource of its nodes.
        gpu_type: Kind of GPU that the task asks for; empty for any.
        gpu_labels: Labels of nodes with that kind, and their accepted values; one label is enough.
        nodes: Pods that run an attempt together, each on a node of its own. Default 1.
        user: User ID of the container, optionally followed by a colon and a group ID; empty for the
            image's own.
        claim: Name of the PersistentVolumeClaim that is mounted at `path`; empty for no volume.
        path: Directory where the volume is mounted, the same in pods as here.
        queue: Name of Kueue's queue for the Job; empty for none.
        node_selector: Labels that nodes must have.
        tolerations: Taints of nodes that pods tolerate, in Kubernetes' form.
        priority_class: Name of the pods' PriorityClass; empty for the cluster's default.
        pull: Image pull policy of Kubernetes: ``IfNotPresent``, ``Always`` or ``Never``.
        pull_secrets: Names of Secrets with the logins of image registries.
        secrets: Variables from Secrets of the user's own: variable to name and key.
        secrets_from_here: Variables whose values come from this machine.
        queue_priority: Name of the Job's priority class in Kueue; empty for none.
        service_account: Name of the pods' service account, with its token; empty for pods without a
            token.
        check_image: Image that checks the GPUs before the program begins; empty for no check.
        check_python: Python in the check's image that has Tarmac. Default ``python3``.
        jobset: Whether a JobSet makes the pods of an attempt on several nodes.
        restricted: Whether the restricted Pod Security Standard admits its pods.
        is_unnamed: Whether Tarmac chose the user ID, which the image need not know.
        pod: Part of a pod's template that the user's options merge into the pods.
    """

    image: str
    cpus: float
    memory: int | None = None
    shm: int | None = None
    gpus: int = 0
    gpu_resource: str = ""
    nodes: int = 1
    user: str = ""
    claim: str = ""
    path: str = ""
    queue: str = ""
    node_selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()
    priority_class: str = ""
    pull: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    secrets: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    secrets_from_here: tuple[str, ...] = ()
    queue_priority: str = ""
    service_account: str = ""
    check_image: str = ""
    check_python: str = "python3"
    jobset: bool = False
    restricted: bool = False
    is_unnamed: bool = False
    pod: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    gpu_type: str = ""
    gpu_labels: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of object for one or several attempts: ``Job`` or ``JobSet``."""
        return "JobSet" if self.jobset else "Job"


_PULLS = {"missing": "IfNotPresent", "always": "Always", "never": "Never"}


def demand_of(task: Task, mapping: Mapping[str, Secret] | None = None) -> Demand:
    """Return the demand of a task's pods.

    Args:
        task: Task that the pods run.
        mapping: Secrets of this machine, by the name that job files use; other names are Secrets of
            the cluster.

    Raises:
        RequestError: Kubernetes, or Tarmac's use of it, does not support a setting of the task.
    """
    options, needs, environment = options_of(task), task.resources, task.environment
    _refuse_unknown(task, has_volume=options.volume is not None)
    gpus = int(needs.gpus)
    if needs.gpus != gpus:
        raise RequestError(
            f"task {task.name!r}: resources.gpus is {needs.gpus:g}: Kubernetes gives whole GPUs",
            hint="If the cluster partitions GPUs, request 1 partition: options: {kubernetes: "
            "{gpu_resource: nvidia.com/mig-1g.10gb}}",
        )
    container = environment if isinstance(environment, Container) else None
    image = container.image if container else options.image
    if not image:
        raise RequestError(
            f"task {task.name!r} has no image, but Kubernetes needs one",
            hint="--set options.kubernetes.image=python:3.12-slim, or an environment of the kind "
            "container",
        )
    user, is_unnamed = _user_of(container, options)
    theirs = store_keys(task) | cluster_secrets(task, mapping or {})
    return Demand(
        image=image,
        cpus=needs.cpus,
        memory=needs.memory,
        shm=needs.shm,
        gpus=gpus,
        gpu_resource=options.gpu_resource,
        nodes=needs.nodes,
        user=user,
        claim=options.volume.claim if options.volume else "",
        path=options.volume.path if options.volume else "",
        queue=options.queue,
        node_selector=options.node_selector,
        tolerations=tuple(
            {name: value for name, value in toleration.model_dump().items() if value}
            for toleration in options.tolerations
        ),
        priority_class=options.priority_class,
        pull=_PULLS[container.pull] if container else "IfNotPresent",
        pull_secrets=options.image_pull_secrets,
        secrets=theirs,
        secrets_from_here=tuple(sorted(task.secrets.keys() - theirs.keys())),
        queue_priority=options.queue_priority,
        service_account=options.service_account,
        check_image=(options.check_image or image) if options.check == "quick" and gpus else "",
        check_python=options.python,
        jobset=options.jobset and needs.nodes > 1,
        restricted=options.pod_security == "restricted" and user.partition(":")[0] not in ("", "0"),
        is_unnamed=is_unnamed,
        pod=options.pod,
        gpu_type=needs.gpu_type,
    )


def _user_of(container: Container | None, options: KubernetesOptions) -> tuple[str, bool]:
    """Return the uid and gid of a task's pods, and whether Tarmac has chosen them."""
    if container is not None and container.user:
        return container.user, False
    if options.pod_security != "restricted":
        return "", False
    user = default_user(has_volume=options.volume is not None)
    return user, bool(user)


def program_of(task: Task) -> tuple[str, ...]:
    """Return the program of a task's container, which replaces the image's own entry point.

    The image's Python replaces the Python of this process.
    """
    environment = task.environment
    first = environment.entrypoint or () if isinstance(environment, Container) else ()
    python = options_of(task).python
    return tuple(python if word == sys.executable else word for word in (*first, *task.command))


def cluster_secrets(task: Task, mapping: Mapping[str, Secret]) -> dict[str, tuple[str, str]]:
    """Return a task's secrets from the cluster: variable to name of a Secret and key."""
    return {
        variable: (secret.name, secret.key)
        for variable, secret in task.secrets.items()
        if secret.name is not None
        and secret.key is not None
        and f"{secret.name}/{secret.key}" not in mapping
    }


def _refuse_unknown(task: Task, *, has_volume: bool) -> None:
    def refuse(what: str, hint: str | None = None) -> None:
        raise RequestError(f"task {task.name!r}: {what}", hint=hint)

    environment = task.environment
    if isinstance(environment, BuiltEnvironment):
        refuse(
            "its environment is built from packages, which is not possible on Kubernetes",
            "Put the packages into an image: environment: {kind: container, image: ...}",
        )
    if (task.trains or LAUNCH in task.env) and not has_volume:
        refuse(
            "it trains without a volume: its run would be lost with its pod",
            "options.kubernetes.volume names a claim that holds the run's directory",
        )
    if not has_volume:
        refuse_unreachable_files(task)
    if not isinstance(environment, Container):
        return
    if not program_of(task):
        refuse(
            "it has no command, and Tarmac cannot read the image's own command before it runs on "
            "Kubernetes",
            "Write one: command: [python, main.py]. In an HKube definition it belongs in "
            f"options.tarmac, beside environment: {{image: {environment.image}}}",
        )
    unknown: dict[str, Any] = {
        "login": (environment.login, "options.kubernetes.image_pull_secrets names a Secret"),
        "mounts": (environment.mounts, "options.kubernetes.volume is a claim that pods mount"),
        "network": (environment.network, None),
        "workdir": (environment.workdir, None),
        "ipc": (environment.ipc, "resources.shm is shared memory"),
        "ulimits": (environment.ulimits, None),
    }
    for name, (value, hint) in unknown.items():
        if value:
            refuse(f"environment.{name} has no meaning on Kubernetes", hint)
    if environment.user and not environment.user.replace(":", "", 1).isdigit():
        refuse(f"environment.user is {environment.user!r}: Kubernetes takes only a number")
