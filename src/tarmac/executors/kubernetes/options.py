"""``options: {kubernetes: ...}`` of a job, a task or the user's settings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from tarmac.documents import Bytes, Seconds
from tarmac.errors import RequestError
from tarmac.executors.kubernetes.overlay import check_overlay
from tarmac.tasks.plan import Task


def _switch(value: Any) -> Any:
    # YAML reads an unquoted `off` as False.
    return "off" if value is False else value


class Volume(BaseModel):
    """A claim that holds the run's directory; all pods and this machine mount it.

    Attributes:
        claim: Name of the PersistentVolumeClaim, which many nodes can write to at once (RWX).
        path: Directory where the claim is mounted, the same in pods and on this machine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    claim: str = Field(min_length=1)
    path: str = Field(pattern=r"^/.+")


class Toleration(BaseModel):
    """A taint of nodes that pods tolerate, in Kubernetes' terms.

    Attributes:
        key: Key of the taint; empty for all keys, with `operator` ``Exists``.
        operator: ``Equal`` compares `value` with the taint's; ``Exists`` accepts any value.
        value: Value that the taint must have, with `operator` ``Equal``.
        effect: Effect of the taint; empty for all effects.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


class RunnerPod(BaseModel):
    """Kubernetes' options for the pod of a runner.

    Attributes:
        image: Image that has Tarmac. Default: the tasks' image.
        service_account: Service account with the rights that runs need. Default: the namespace's
            own account, which mostly has none.
        memory: Memory of the runner, in bytes. The default grows with the number of tasks.
        pod: Part of the runner's pod template, like `KubernetesOptions.pod` for tasks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str = ""
    service_account: str = ""
    memory: Bytes | None = None
    pod: dict[str, Any] = Field(default_factory=dict)


class KubernetesOptions(BaseModel):
    """Kubernetes' options for tasks and runners.

    Attributes:
        kubeconfig: File with the cluster's address and login. Default: ``KUBECONFIG``, else
            ``~/.kube/config``, else the pod's own service account.
        context: Context of the kubeconfig. Default: its current context.
        namespace: Namespace where Jobs are made. Default: the context's.
        image: Image of tasks without a container of their own. It needs Python 3.9 for inputs,
            outputs, a volume and several nodes; otherwise ``sh`` is enough.
        python: Python of the image that has Tarmac. Used for trainings, searches and runners, for
            inputs and outputs without a volume, and in place of this machine's Python in commands.
        image_pull_secrets: Names of Secrets with logins of registries.
        volume: Claim that holds the run's directory. Without a claim, output and results come back
            through the API, and inputs and outputs are in object stores.
        store_secret: Name of a Secret with the keys of S3 for inputs and outputs,
            ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``. Default: keys from the pods'
            service account or the task's own secrets.
        queue: Name of the Kueue queue for Jobs, each of which then has one task. Default: no queue.
        node_selector: Labels that nodes must have.
        tolerations: Taints of nodes that pods tolerate.
        gpu_resource: The cluster's name for its GPUs: ``nvidia.com/mig-3g.40gb``. Default: the
            single kind that its nodes report.
        priority_class: Name of the pods' PriorityClass. Default: the cluster's.
        queue_priority: Name of the Jobs' priority class in Kueue, which decides the order of
            admission. Default: none.
        service_account: Service account that gives pods rights in the cluster. Default: none,
            without a token.
        pod_security: ``restricted`` makes pods that a namespace of that Pod Security Standard
            admits: not root, no capabilities. ``baseline`` leaves both to the image. Default
            ``restricted``.
        check: ``quick`` checks the task's NVIDIA GPUs before the program begins. A node with an
            unfit GPU gets no more tasks of the run. Default ``off``.
        check_image: Image that has Tarmac for the check. Default: the task's own image.
        autoscaling: Whether the cluster grows for waiting tasks, so that no task is refused for
            lack of a large enough node. Default false.
        pending_limit: Time that a task may wait for a node before it fails. Default: no limit.
        jobset: Whether attempts on several nodes are JobSets, as some sites require; the cluster
            needs JobSet's controller. Default false.
        pod: Part of a pod's template, ``metadata`` and ``spec``, that is merged into the pods of
            tasks as kubectl merges: lists with a merge key, such as ``name``, item by item.
        runner: Image, service account, memory and pod template of the runner, where the runner is a
            pod.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    image: str = ""
    python: str = Field(default="python3", min_length=1)
    image_pull_secrets: tuple[str, ...] = ()
    volume: Volume | None = None
    store_secret: str = ""
    queue: str = ""
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    gpu_resource: str = Field(default="", pattern=r"^([a-z0-9.-]+/[A-Za-z0-9._-]+)?$")
    priority_class: str = ""
    queue_priority: str = ""
    service_account: str = ""
    pod_security: Literal["restricted", "baseline"] = "restricted"
    check: Annotated[Literal["quick", "off"], BeforeValidator(_switch)] = "off"
    check_image: str = ""
    autoscaling: bool = False
    pending_limit: Seconds | None = None
    jobset: bool = False
    pod: dict[str, Any] = Field(default_factory=dict)
    runner: RunnerPod = RunnerPod()

    @model_validator(mode="after")
    def _check_pod(self) -> KubernetesOptions:
        taken = [self.volume.path.rstrip("/")] if self.volume else []
        for pod, at in ((self.pod, ("pod",)), (self.runner.pod, ("runner", "pod"))):
            if pod:
                check_overlay(pod, taken, at)
        return self


def options_of(task: Task) -> KubernetesOptions:
    """Return a task's options.

    Raises:
        RequestError: The options are invalid.
    """
    try:
        return KubernetesOptions.model_validate(task.options.get("kubernetes", {}))
    except ValidationError as error:
        # Options of job files are checked on reading, with line and column. Only jobs made in
        # Python fail here.
        first = error.errors()[0]
        place = ".".join(map(str, ("options", "kubernetes", *first["loc"])))
        message = first["msg"].removeprefix("Value error, ")
        raise RequestError(f"task {task.name!r}: {place}: {message}") from error
