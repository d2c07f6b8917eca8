"""``options: {ray: ...}`` of a job, a task or the user's settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from tarmac.documents import Seconds, Whole
from tarmac.errors import RequestError
from tarmac.tasks.plan import Task

# The setting of a job file to use in place of a resource of Ray.
_INSTEAD = {
    "CPU": "`cpus` of the task's resources",
    "GPU": "`gpus` of the task's resources",
    "memory": "`memory` of the task's resources",
    "object_store_memory": "nothing: tasks of Tarmac do not use Ray's object store",
}


def _switch(value: object) -> object:
    # YAML and settings read an unquoted `off` as False.
    return "off" if value is False else value


class RayOptions(BaseModel):
    """Ray's options for tasks and runners.

    Attributes:
        address: Address of the cluster's head, ``HOST:PORT``, or ``auto`` for the cluster that this
            machine is part of. Default: ``RAY_ADDRESS``, else ``auto``.
        dashboard: URL of the cluster's dashboard, where a runner is submitted as a job. Default:
            ``RAY_API_SERVER_ADDRESS``, else ``http://127.0.0.1:8265``.
        resources: Custom resources that each node of a task must have: ``{tpu_host: 1}``.
        labels: Labels that its nodes must have: ``{"ray.io/accelerator-type": A100}``.
        spread: Whether to distribute tasks over many nodes instead of filling one node after
            another. Default false.
        autoscaling: Whether the cluster grows for waiting tasks. No task is then refused for lack
            of a large enough node, and `max_pending` tasks wait in Ray's own queue. Default false.
        max_pending: Most tasks in Ray's queue where the cluster grows, 1 to 10000. Default 100.
        pending_limit: Time that a task may wait in Ray's queue before it fails. Default: no limit.
        work: Working directory of a task: ``shared``, below the run's directory, or a directory on
            the node's own disk. Default ``shared``.
        check: ``quick`` checks the task's GPUs before its program begins. Default ``off``.
        containers: Container engine. Default: the first of apptainer, podman and docker that is
            installed.
        environments: Where virtual environments are built: ``node``, on the first node that needs
            one, or ``here``, before any submission. Default ``node``.
        store: Directory that all nodes see, for environments and images that were made for them.
            Default: a part of the user's cache directory.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str = ""
    dashboard: str = ""
    resources: dict[str, float] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    spread: bool = False
    autoscaling: bool = False
    max_pending: Whole = Field(default=100, ge=1, le=10_000)
    pending_limit: Seconds | None = None
    work: str = "shared"
    check: Annotated[Literal["quick", "off"], BeforeValidator(_switch)] = "off"
    containers: Literal["apptainer", "podman", "docker"] | None = None
    environments: Literal["node", "here"] = "node"
    store: str = ""

    @field_validator("resources")
    @classmethod
    def _only_custom(cls, value: dict[str, float]) -> dict[str, float]:
        for name, amount in value.items():
            if name in _INSTEAD:
                raise ValueError(f"{name} is set by Tarmac itself; use {_INSTEAD[name]}")
            if amount <= 0:
                raise ValueError(f"{name} is {amount:g}, expected more than 0")
        return value


def options_of(task: Task) -> RayOptions:
    """Return a task's options.

    Raises:
        RequestError: The options are invalid.
    """
    try:
        return RayOptions.model_validate(task.options.get("ray", {}))
    except ValidationError as error:
        # Options of job files are checked on reading, with line and column. Only jobs made in
        # Python fail here.
        first = error.errors()[0]
        place = ".".join(map(str, ("options", "ray", *first["loc"])))
        message = first["msg"].removeprefix("Value error, ")
        raise RequestError(f"task {task.name!r}: {place}: {message}") from error
