"""The job model that every job file format is parsed into."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails

from tarmac.documents import (
    EXTENSIONS,
    Bytes,
    Count,
    Cpus,
    Number,
    Seconds,
    Whole,
    without_extensions,
)
from tarmac.tasks.parts import Line, Name, Part, Text, by_variable
from tarmac.tasks.run_files import within_run
from tarmac.tasks.surroundings import (
    BuiltEnvironment,
    Conda,
    Container,
    Environment,
    Mount,
    Project,
    Secret,
    SystemEnvironment,
    Venv,
)
from tarmac.tasks.sweep import Sweep

__all__ = [
    "BuiltEnvironment",
    "Conda",
    "Container",
    "Environment",
    "Input",
    "Job",
    "Mount",
    "Output",
    "Project",
    "Resources",
    "Retries",
    "Secret",
    "SystemEnvironment",
    "TaskSpec",
    "Venv",
]

# A number, or an object with a GPU type; see `GpuRequest`.
_GPUS_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {
            "type": "object",
            "properties": {
                "type": {"type": "string", "minLength": 1},
                "count": {"type": "number", "exclusiveMinimum": 0, "default": 1},
            },
            "required": ["type"],
            "additionalProperties": False,
        },
    ]
}


class GpuRequest(Part):
    """A number of GPUs of one type: ``{type: a100, count: 2}``.

    Attributes:
        type: GPU type as the vendor or the site names it, in any case: ``a100``, ``H100``.
        count: Number of GPUs, or a fraction of one GPU below 1. Default 1.
    """

    type: str = Field(min_length=1)
    count: Number = Field(default=1, gt=0)


class Resources(Part):
    """The resources that a task needs on each of its nodes.

    Attributes:
        cpus: Number of CPU cores; fractions are allowed. Default 1.
        memory: Memory limit in bytes; a task that exceeds it is ended. None: unlimited.
        gpus: Whole number of GPUs, or a fraction below 1 of one shared GPU.
            ``{type: a100, count: 2}`` also states the GPU type. Default 0.
        gpu_type: Type of the GPUs, taken from `gpus`; empty for any type.
        gpu_memory: Minimum memory of each GPU in bytes. None: any.
        shm: Shared memory of a container in bytes. None: the runtime's default.
        shares_cpus: Whether the task may use all cores of the machine, together with other tasks.
            The scheduler still counts `cpus` for the task.
        nodes: Number of nodes that run the task together; more than one only on a cluster.
    """

    cpus: Cpus = 1.0
    memory: Bytes | None = None
    gpus: Annotated[Number, WithJsonSchema(_GPUS_SCHEMA)] = Field(default=0, ge=0)
    gpu_type: str = ""
    gpu_memory: Bytes | None = None
    shm: Bytes | None = None
    shares_cpus: bool = False
    nodes: Count = 1

    @model_validator(mode="before")
    @classmethod
    def _with_kind(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(values.get("gpus"), dict):
            return values
        try:
            request = GpuRequest.model_validate(values["gpus"])
        except ValidationError as error:
            raise ValidationError.from_exception_data(
                "gpus",
                [
                    InitErrorDetails(
                        type=detail["type"],
                        loc=("gpus", *detail["loc"]),
                        input=detail["input"],
                        ctx=detail.get("ctx", {}),
                    )
                    for detail in error.errors()
                ],
            ) from None
        return {**values, "gpus": request.count, "gpu_type": request.type}

    @field_validator("gpus")
    @classmethod
    def _whole_or_part(cls, value: float) -> float:
        if value > 1 and value != int(value):
            raise ValueError("expected a whole number of GPUs, or a part of one below 1")
        return value

    @model_validator(mode="after")
    def _whole_on_many(self) -> Resources:
        if self.nodes > 1 and 0 < self.gpus < 1:
            raise ValueError("a part of a GPU cannot be shared by tasks of several nodes")
        return self


def _relative(value: Any) -> Any:
    if isinstance(value, str):
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ValueError("expected a path below the task's directory")
    return value


def _relative_or_whole(value: Any) -> Any:
    return value if value == "." else _relative(value)


Inside = Annotated[str, BeforeValidator(_relative)]
InsideOrWhole = Annotated[str, BeforeValidator(_relative_or_whole)]


def _place(value: Any) -> Any:
    if isinstance(value, str):
        within_run(value, Path())
        try:
            urlsplit(value)
        except ValueError as error:
            raise ValueError(f"is not a URL: {error}") from error
    return value


Place = Annotated[str, BeforeValidator(_place)]


class Input(Part):
    """A file or a directory that is staged into a task's directory.

    Attributes:
        source: A URL, a path, or ``run:PATH`` for an output of another task of the run; ``from`` in
            files. In an object store, a name without an object stands for the directory of all
            objects below it.
        to: Path below the task's directory. Default: the source's own name. ``.`` is the task's
            directory itself.
        sha256: Expected SHA-256 checksum of the content, in hexadecimal. None: not checked.
        mode: Permissions of the file in octal digits, such as ``0755``. None sets no permissions.
        unpack: Whether to unpack the source, an archive, at ``to``. Default False.
        include: Patterns of the files of a directory to stage in; all by default. ``*`` matches
            ``/`` too.
        exclude: Patterns of the files of a directory to leave out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    source: Place = Field(alias="from", min_length=1)
    to: InsideOrWhole | None = None
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-fA-F]{64}$")
    mode: str | None = Field(default=None, pattern=r"^0?[0-7]{3,4}$")
    unpack: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class Output(Part):
    """Files of a task's directory that are stored after the task.

    Attributes:
        path: Pattern below the task's directory; ``*`` and ``**`` are wildcards.
        to: Destination directory: a path, a URI, or ``run:PATH`` for other tasks of the same run.
        when: Result of the task after which the files are stored. Default ``success``.
        include: Patterns of the files to store among those that match `path`; all by default. ``*``
            matches ``/`` too. With `include`, a result without a match is no error.
        exclude: Patterns of matching files that are not stored.
        root: Directory below the task's directory that the stored names are relative to. None: the
            task's directory.
    """

    path: Inside
    to: Place = Field(min_length=1)
    when: Literal["success", "failure", "always"] = "success"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    root: Inside | None = None


class Retries(Part):
    """The retry settings of a task.

    Attributes:
        count: Maximum number of retries. Default 0.
        backoff: Seconds before the first retry; each further retry doubles them. Default 1.
        exit_codes: Exit codes that are retried, 1 to 255; any but 0 by default. Signal N is 128 + N
            or -N, whether a shell, a container or the kernel reports it.
    """

    count: Whole = Field(default=0, ge=0)
    backoff: Seconds = 1.0
    exit_codes: tuple[Whole, ...] = ()

    @property
    def codes(self) -> tuple[int, ...]:
        """The exit codes that are retried, with both forms of each signal: 137 and -9."""
        killed = (128 - code for code in self.exit_codes if code < 0 or 128 < code <= 192)
        return tuple(dict.fromkeys((*self.exit_codes, *killed)))


def _retries(value: Any) -> Any:
    return {"count": value} if isinstance(value, int) and not isinstance(value, bool) else value


class _Settings(Part):
    """Settings of a job for all its tasks, and of a task for itself.

    Keys that begin with ``x-`` are ignored: they hold YAML anchors.

    Attributes:
        options: Settings for a single executor, by its name: ``{slurm: {partition: gpu}}``.
    """

    model_config = ConfigDict(json_schema_extra=EXTENSIONS)

    environment: Environment = SystemEnvironment()
    resources: Resources = Resources()
    env: Annotated[dict[str, Text], AfterValidator(by_variable)] = Field(default={})
    secrets: Annotated[dict[str, Secret], AfterValidator(by_variable)] = Field(default={})
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    timeout: Seconds | None = None
    retries: Annotated[Retries, BeforeValidator(_retries, json_schema_input_type=int | Retries)] = (
        Retries()
    )
    priority: Whole = 0
    options: dict[str, dict[str, Any]] = Field(default={})
    sweep: Sweep | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_extensions(cls, value: Any) -> Any:
        return without_extensions(value)


class TaskSpec(_Settings):
    """A task before its sweep is expanded.

    Attributes:
        name: Name of the task, unique in its job.
        command: A program with its arguments, or a line for ``sh -c``. None: the default program of
            the container image.
        workload: Workload for ``tarmac train``, instead of a command.
        settings: Options and settings of the workload, by name.
        needs: Names of tasks that must succeed before this task starts.
        on_failure: Whether tasks that need this task are skipped after its failure, or start all
            the same. Default ``skip``.
    """

    name: Name
    command: tuple[Text, ...] | Line | None = None
    workload: str | None = None
    settings: dict[str, Text] = Field(default={})
    needs: tuple[str, ...] = ()
    on_failure: Literal["skip", "continue"] = "skip"

    @model_validator(mode="after")
    def _one_program(self) -> TaskSpec:
        _check_program(self)
        return self


def _check_program(spec: TaskSpec | Job) -> None:
    if isinstance(spec, Job) and spec.pipeline is not None:
        wrong = sorted(spec.model_fields_set & _NOT_OF_PIPELINES)
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: not allowed in a job with a pipeline")
        return
    if isinstance(spec, Job) and spec.algorithms:
        raise ValueError("algorithms belong to a pipeline")
    if spec.command is not None and spec.workload is not None:
        raise ValueError("expected one of command and workload")
    has_none = spec.command is None and spec.workload is None
    # The image may have a default program, and the task may inherit the job's image.
    is_own = isinstance(spec, TaskSpec) and "environment" not in spec.model_fields_set
    if has_none and not isinstance(spec.environment, Container) and not is_own:
        raise ValueError("expected one of command and workload")
    if spec.command is not None and not spec.command:
        raise ValueError("command is empty")
    if spec.settings and spec.workload is None:
        raise ValueError("settings belong to a workload")


# Pipeline nodes state their own resources, and algorithms their own images. Options for a single
# executor apply to all nodes.
_NOT_OF_PIPELINES = frozenset(
    {*_Settings.model_fields, "command", "workload", "settings", "tasks", "after_all"}
) - {"options"}


class Job(_Settings):
    """A job: one program, several tasks, or a pipeline that creates tasks while it runs.

    The job's settings apply to each task that does not set the same itself. ``env``, ``secrets``,
    ``inputs`` and ``outputs`` of the job and the task are merged.

    Attributes:
        name: Name for display; the run's name begins with it.
        command: Command line of a job with a single task: words, or a text for ``sh -c``.
        workload: Workload for ``tarmac train`` in a job with a single task, instead of a command.
        settings: Settings of the workload, by name.
        tasks: Tasks of a job with several, instead of a command or workload.
        after_all: Task that runs after all others, whether or not they succeeded.
        pipeline: Pipeline in HKube's form, for a job that creates tasks while it runs.
        algorithms: Algorithms and pipelines in HKube's form that the pipeline's nodes name.
        concurrency: Maximum number of tasks at once. None: no limit.
        original: Source of a converted job, by format; preserves keys without a meaning here.
            Version 0.1 called this field ``kept``.
        refusals: Reasons why a converted job cannot run here, a line each.
    """

    name: Name
    command: tuple[Text, ...] | Line | None = None
    workload: str | None = None
    settings: dict[str, Text] = Field(default={})
    tasks: tuple[TaskSpec, ...] = ()
    after_all: TaskSpec | None = None
    pipeline: dict[str, Any] | None = None
    algorithms: tuple[dict[str, Any], ...] = ()
    concurrency: Count | None = None
    original: dict[str, Any] = Field(default={}, validation_alias=AliasChoices("original", "kept"))
    refusals: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_kind(self) -> Job:
        if self.tasks:
            if self.command is not None or self.workload is not None:
                raise ValueError("expected tasks, or a command or workload of the job's own")
            for task in (*self.tasks, *((self.after_all,) if self.after_all else ())):
                has_none = task.command is None and task.workload is None
                inherits = "environment" not in task.model_fields_set
                if has_none and inherits and not isinstance(self.environment, Container):
                    raise ValueError(f"task {task.name!r}: expected one of command and workload")
        else:
            _check_program(self)
        return self
