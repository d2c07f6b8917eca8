"""``options: {slurm: ...}`` of a job, a task or the user's settings."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from tarmac.documents import Bytes, Seconds, Whole
from tarmac.errors import RequestError
from tarmac.tasks.plan import Task

# Options of sbatch that Tarmac itself sets.
_OURS = frozenset(
    {
        *("job-name", "array", "chdir", "output", "error", "open-mode", "export", "export-file"),
        *("requeue", "no-requeue", "signal", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task"),
        *("mem", "mem-per-cpu", "mem-per-gpu", "gres", "gpus", "gpus-per-node", "gpus-per-task"),
        *("time", "partition", "account", "qos", "constraint", "reservation", "exclude", "nice"),
        *("parsable", "wrap", "wait", "test-only", "comment", "input", "get-user-env", "hold"),
    }
)

# The setting of a job file to use in place of such an option.
_INSTEAD = {
    "time": "`time` of the options, or `timeout` of the task",
    "mem": "`memory` of the task's resources",
    "gres": "`gpus` of the task's resources, and `gpu_type` of the options",
    "nodes": "`nodes` of the task's resources",
    "cpus-per-task": "`cpus` of the task's resources",
    **dict.fromkeys(
        ("partition", "account", "qos", "constraint", "reservation"), "the option of that name"
    ),
    "nice": "`priority` of the task",
}


def _lines(value: Any) -> Any:
    return tuple(value.splitlines()) if isinstance(value, str) else value


def _switch(value: Any) -> Any:
    # YAML and settings read an unquoted `off` as False.
    return "off" if value is False else value


Lines = Annotated[tuple[str, ...], BeforeValidator(_lines, json_schema_input_type=str | list[str])]


class JobOptions(BaseModel):
    """Slurm's options for any job.

    Attributes:
        partition: Partition where jobs wait. Default: the site's.
        account: Account that jobs are charged to. Default: Slurm's.
        qos: Quality of service of jobs. Default: Slurm's.
        constraint: Features that nodes must have: ``a100&nvlink``.
        reservation: Name of a reservation that jobs may use. Default: none.
        time: Time limit of a job, staging included. Default: the task's ``timeout`` and some
            minutes, or the partition's default where the task has no timeout.
        setup: Lines of shell to run before the program: ``module load cuda``. Default: none.
        sbatch: Further options of sbatch: ``--licenses=matlab``. Default: none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    reservation: str = ""
    time: Seconds | None = None
    setup: Lines = ()
    sbatch: Lines = ()

    @field_validator("sbatch")
    @classmethod
    def _only_others(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for line in value:
            match = re.match(r"--([a-z][a-z-]*)(?:[= ]|$)", line)
            if match is None:
                raise ValueError(f"{line!r} is no long option of sbatch, as --licenses=matlab is")
            if match[1] in _OURS:
                instead = _INSTEAD.get(match[1])
                hint = f"; use {instead}" if instead else ""
                raise ValueError(f"--{match[1]} is set by Tarmac itself{hint}")
        return value


class RunnerOptions(JobOptions):
    """Slurm's options for the job of a runner.

    Attributes:
        memory: Memory of the runner, in bytes. The default grows with the number of tasks.
    """

    memory: Bytes | None = None


class SlurmOptions(JobOptions):
    """Slurm's options for tasks.

    Attributes:
        gpu_type: Kind of GPU, as the site names it: ``a100``. Default: any kind.
        per_job: Attempts that each job runs, one after another, 1 to 1000; for short tasks. Default
            1.
        pending_limit: Time that a task may wait in Slurm's queue before it fails. Default: no
            limit.
        requeue_on_timeout: Whether a task continues in another job each time that Slurm's time
            limit ends it; for programs that resume from a checkpoint. Default false.
        work: Working directory of a task: ``shared``, below the run's directory, or a directory on
            the node's own disk. Default ``shared``.
        check: ``quick`` checks the task's GPUs on its node before the program begins. An unfit GPU
            counts as a failure of the node, which is then avoided. Default ``off``.
        containers: Container engine. Default: the first of pyxis, apptainer, podman and docker that
            is installed.
        environments: Where virtual environments are built: ``node``, on the first node that needs
            one, or ``here``, before any submission, for nodes without a package index. Default
            ``node``.
        store: Directory that all nodes see, for environments and images that were made for them.
            Default: a part of the user's cache directory.
        runner: Options of the runner's own job, where the runner is a job. They override the tasks'
            ``partition``, ``account``, ``qos`` and ``setup``.
    """

    gpu_type: str = ""
    per_job: Whole = Field(default=1, ge=1, le=1000)
    pending_limit: Seconds | None = None
    requeue_on_timeout: bool = False
    work: str = "shared"
    check: Annotated[Literal["quick", "off"], BeforeValidator(_switch)] = "off"
    # All such unions list their members in this order: Python caches equal unions by first use.
    containers: Literal["docker", "podman", "apptainer", "pyxis"] | None = None
    environments: Literal["node", "here"] = "node"
    store: str = ""
    runner: RunnerOptions = RunnerOptions()


def options_of(task: Task) -> SlurmOptions:
    """Return a task's options.

    Raises:
        RequestError: The options are invalid.
    """
    options = task.options.get("slurm", {})
    try:
        return SlurmOptions.model_validate(options)
    except ValidationError as error:
        # Options of job files are checked on reading, with line and column. Only jobs made in
        # Python fail here.
        first = error.errors()[0]
        place = ".".join(map(str, ("options", "slurm", *first["loc"])))
        message = first["msg"].removeprefix("Value error, ")
        raise RequestError(f"task {task.name!r}: {place}: {message}") from error
