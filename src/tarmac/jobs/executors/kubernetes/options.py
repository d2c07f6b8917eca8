"""``options: {kubernetes: ...}`` of a job, a task or the user's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from tarmac.documents import Bytes, Seconds  # noqa: TC001 - pydantic reads them
from tarmac.errors import RequestError
from tarmac.jobs.executors.kubernetes.overlay import check_overlay

if TYPE_CHECKING:
    from tarmac.jobs.plan import Task


def _switch(value: Any) -> Any:
    # YAML reads `off` as false.
    return "off" if value is False else value


class Volume(BaseModel):
    """A claim that all pods mount, and this machine too: the run's directory lies on it.

    Attributes:
        claim: Name of the PersistentVolumeClaim. Many nodes write to it at once (RWX).
        path: Directory where the claim is mounted, the same in pods as here.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    claim: str = Field(min_length=1)
    path: str = Field(pattern=r"^/.+")


class Toleration(BaseModel):
    """A taint of nodes that pods bear, in Kubernetes' own words.

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
    """What the pod of a runner needs.

    Attributes:
        image: Image that has Tarmac. Default: the tasks' image.
        service_account: Service account with the rights that runs need. Default: the namespace's
            own, which mostly has none.
        memory: Bytes that the runner may take. The default grows with the number of tasks.
        pod: Part of its pod's template, as `KubernetesOptions.pod` is of tasks'.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str = ""
    service_account: str = ""
    memory: Bytes | None = None
    pod: dict[str, Any] = Field(default_factory=dict)


class KubernetesOptions(BaseModel):
    """What only Kubernetes understands.

    Attributes:
        kubeconfig: The file that says where the cluster is; by default ``KUBECONFIG``, else
            ``~/.kube/config``, else what a pod is given.
        context: Context of the kubeconfig. Default: its current context.
        namespace: Namespace where Jobs are made. Default: the context's.
        image: Image of tasks without a container of their own. It needs Python 3.9 for inputs,
            outputs, a volume and several nodes; else ``sh`` will do.
        python: The Python of the image that has Tarmac, for trainings, searches and runners, for
            inputs and outputs without a volume, and for whatever names the one that Tarmac runs
            with here.
        image_pull_secrets: Names of Secrets with logins of registries.
        volume: A claim that the run's directory lies on. Without one, what tasks print and how
            they end comes back by the API, and inputs and outputs are in object stores.
        store_secret: Name of a Secret with the keys of S3 for inputs and outputs,
            ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``; by default pods have what their
            service account or the task's own secrets give them.
        queue: Name of the Kueue queue for Jobs, each of which then has one task. Default: no queue.
        node_selector: Labels that nodes must have.
        tolerations: Taints of nodes that pods bear.
        gpu_resource: The cluster's name for its GPUs: ``nvidia.com/mig-3g.40gb``. Default: the
            single kind that its nodes report.
        priority_class: Name of the pods' PriorityClass. Default: the cluster's.
        queue_priority: Name of the Jobs' priority class in Kueue: which Jobs of the queue are
            admitted first. Default: none.
        service_account: Service account that gives pods rights in the cluster. Default: none,
            without a token.
        pod_security: ``restricted`` makes pods that a namespace of that Pod Security Standard
            admits: not root, no capabilities. ``baseline`` leaves both to the image.
        check: ``quick`` checks the NVIDIA GPUs that a task is given before it begins. A node whose
            GPU is not fit gets no more of the run.
        check_image: Image that has Tarmac for the check. Default: the task's own image.
        autoscaling: Whether the cluster grows for what waits: nothing is refused then because no
            node is large enough yet.
        pending_limit: How long a task waits for a node before it fails; for ever where it is not
            given.
        jobset: Whether attempts on several nodes are JobSets, which some sites want; JobSet's
            controller must be there then.
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
        RequestError: They are not of this form.
    """
    try:
        return KubernetesOptions.model_validate(task.options.get("kubernetes", {}))
    except ValidationError as error:
        # Files are checked as they are read, with line and column; this is a job made in Python.
        first = error.errors()[0]
        place = ".".join(map(str, ("options", "kubernetes", *first["loc"])))
        message = first["msg"].removeprefix("Value error, ")
        raise RequestError(f"task {task.name!r}: {place}: {message}") from error
