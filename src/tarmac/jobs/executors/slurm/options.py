"""``options: {slurm: ...}`` of a job, a task or the user's settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from tarmac.documents import Bytes, Seconds, Whole  # noqa: TC001 - pydantic reads them
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from tarmac.jobs.plan import Task

# What Tarmac says to sbatch itself, from what a job asks for.
_OURS = frozenset(
    {
        *("job-name", "array", "chdir", "output", "error", "open-mode", "export", "export-file"),
        *("requeue", "no-requeue", "signal", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task"),
        *("mem", "mem-per-cpu", "mem-per-gpu", "gres", "gpus", "gpus-per-node", "gpus-per-task"),
        *("time", "partition", "account", "qos", "constraint", "reservation", "exclude", "nice"),
        *("parsable", "wrap", "wait", "test-only", "comment", "input", "get-user-env", "hold"),
    }
)

# Of those, what a job says by other words.
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
    # `off` without quotes is a truth value in YAML and in settings.
    return "off" if value is False else value


Lines = Annotated[tuple[str, ...], BeforeValidator(_lines, json_schema_input_type=str | list[str])]


class JobOptions(BaseModel):
    """What only Slurm understands, of any job.

    Attributes:
        partition: Partition where jobs wait. Default: the site's.
        account: Account that jobs are charged to. Default: Slurm's.
        qos: Quality of service of jobs. Default: Slurm's.
        constraint: Features that nodes must have: ``a100&nvlink``.
        reservation: Name of a reservation that jobs may use. Default: none.
        time: How long a job may take, staging included; by default the task's ``timeout`` and some
            minutes, or the partition's default where it has none.
        setup: Lines of shell before the program: ``module load cuda``.
        sbatch: Further options of sbatch: ``--licenses=matlab``.
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
                hint = f"; say it by {instead}" if instead else ""
                raise ValueError(f"--{match[1]} is set by Tarmac itself{hint}")
        return value


class RunnerOptions(JobOptions):
    """What only Slurm understands, of a runner that is a job.

    Attributes:
        memory: Bytes that the runner asks for. The default grows with the number of tasks.
    """

    memory: Bytes | None = None


class SlurmOptions(JobOptions):
    """What only Slurm understands, of tasks.

    Attributes:
        gpu_type: The kind of GPU, as the site calls it: ``a100``.
        per_job: Attempts that each job runs, one after another, 1 to 1000; for short tasks. Default
            1.
        pending_limit: How long a task waits in Slurm's queue before it fails; for ever where it is
            not given.
        requeue_on_timeout: Whether a task that Slurm's own time limit has ended goes on in another
            job, as often as that happens; for programs that go on from a checkpoint.
        work: Where a task works: ``shared``, below the run's directory, or a directory on the
            node's own disk.
        check: ``quick`` checks the GPUs that a task was given, on its node and before its program
            begins: one that is not fit counts as the node's failure, and the node is avoided.
        containers: What runs containers: by default the first of pyxis, apptainer, podman and
            docker that is there.
        environments: Where virtual environments are built: on the first node that needs one, or
            ``here`` before anything is submitted, for nodes that reach no package index.
        store: A directory that all nodes see, for environments and images that were made for them;
            by default in the user's cache directory.
        runner: Options of the runner's own job, where the runner is a job. They override the tasks'
            ``partition``, ``account``, ``qos`` and ``setup``.
    """

    gpu_type: str = ""
    per_job: Whole = Field(default=1, ge=1, le=1000)
    pending_limit: Seconds | None = None
    requeue_on_timeout: bool = False
    work: str = "shared"
    check: Annotated[Literal["quick", "off"], BeforeValidator(_switch)] = "off"
    # In the order that all have: Python gives unions of equal names to whoever asks first.
    containers: Literal["docker", "podman", "apptainer", "pyxis"] | None = None
    environments: Literal["node", "here"] = "node"
    store: str = ""
    runner: RunnerOptions = RunnerOptions()


def options_of(task: Task) -> SlurmOptions:
    """Return a task's options.

    Raises:
        RequestError: They are not of this form.
    """
    options = task.options.get("slurm", {})
    try:
        return SlurmOptions.model_validate(options)
    except ValidationError as error:
        # Files are checked as they are read, with line and column; this is a job made in Python.
        first = error.errors()[0]
        place = ".".join(map(str, ("options", "slurm", *first["loc"])))
        message = first["msg"].removeprefix("Value error, ")
        raise RequestError(f"task {task.name!r}: {place}: {message}") from error
