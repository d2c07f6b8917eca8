"""The one model of a job, which every format is read into."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
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
from tarmac.jobs.parts import Line, Name, Part, Text
from tarmac.jobs.run_files import within_run
from tarmac.jobs.surroundings import (
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
from tarmac.jobs.sweep import Sweep  # noqa: TC001 - pydantic reads it

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

# A number, or with a kind; see `GpuRequest`.
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

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class GpuRequest(Part):
    """GPUs of a kind: ``{type: a100, count: 2}``.

    Attributes:
        type: Kind of GPU, as its maker or the site calls it, in any case: ``a100``, ``H100``.
        count: Number of them, or a part of one below 1.
    """

    type: str = Field(min_length=1)
    count: Number = Field(default=1, gt=0)


class Resources(Part):
    """What a task needs while it runs, on each of its nodes.

    Attributes:
        cpus: Cores, also parts of one.
        memory: Bytes; the task is ended when it takes more. None leaves it unlimited.
        gpus: Whole ones, or a part of one that it shares; with their kind
            ``{type: a100, count: 2}``.
        gpu_type: Kind of its GPUs, as `gpus` says it; any where it is empty.
        gpu_memory: Bytes that each of its GPUs must have.
        shm: Bytes of shared memory in a container.
        shares_cpus: Whether it may use all of the machine's, together with others. It is still
            counted as ``cpus``.
        nodes: How many machines it runs on together; more than one only on a cluster.
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
                        type=each["type"],
                        loc=("gpus", *each["loc"]),
                        input=each["input"],
                        ctx=each.get("ctx", {}),
                    )
                    for each in error.errors()
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
            raise ValueError(f"is no URL: {error}") from error
    return value


Place = Annotated[str, BeforeValidator(_place)]


class Input(Part):
    """A file or a directory that a task finds in its directory.

    Attributes:
        source: A URL, a path, or ``run:PATH``, what another task has kept there; ``from`` in files.
            In an object store, what is not an object is the directory of all objects below it.
        to: Where, below the task's directory; by default under its own name. ``.`` is the task's
            directory itself.
        sha256: SHA-256 checksum that the content must have, in hexadecimal. None: not checked.
        mode: Permissions of the file in octal digits, such as ``0755``. None sets no permissions.
        unpack: Whether it is an archive to be unpacked at ``to``.
        include: Patterns of which files of a directory; all by default. ``*`` matches ``/`` too.
        exclude: Patterns of which not.
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
    """What is kept of a task's directory.

    Attributes:
        path: Below the task's directory; ``*`` and ``**`` match.
        to: A directory, as a path or URI, or ``run:PATH``, for other tasks of the same run.
        when: Kept on success, on failure, or always.
        include: Patterns of which files of those; all by default. ``*`` matches ``/`` too, and it
            is no mistake where none matches.
        exclude: Patterns of files that match and are not kept all the same.
        root: A directory below the task's that the names of what is kept start from.
    """

    path: Inside
    to: Place = Field(min_length=1)
    when: Literal["success", "failure", "always"] = "success"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    root: Inside | None = None


class Retries(Part):
    """When a task is tried again.

    Attributes:
        count: At most so often.
        backoff: Seconds before the first; they double each time.
        exit_codes: Only on these, 1 to 255; on any but 0 by default. A signal's number N is 128 + N
            or -N, whether a shell, a container or the kernel reports it.
    """

    count: Whole = Field(default=0, ge=0)
    backoff: Seconds = 1.0
    exit_codes: tuple[Whole, ...] = ()

    @property
    def codes(self) -> tuple[int, ...]:
        """The exit codes, those of signals in both forms: 137 and -9."""
        killed = (128 - code for code in self.exit_codes if code < 0 or 128 < code <= 192)
        return tuple(dict.fromkeys((*self.exit_codes, *killed)))


def _retries(value: Any) -> Any:
    return {"count": value} if isinstance(value, int) and not isinstance(value, bool) else value


class _Settings(Part):
    """What a job sets for all its tasks, and each task for itself.

    Keys that begin with ``x-`` are left out: they hold YAML's anchors.

    Attributes:
        options: By executor, what only that one understands: ``{slurm: {partition: gpu}}``.
    """

    model_config = ConfigDict(json_schema_extra=EXTENSIONS)

    environment: Environment = SystemEnvironment()
    resources: Resources = Resources()
    env: dict[str, Text] = Field(default={})
    secrets: dict[str, Secret] = Field(default={})
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

    @field_validator("env", "secrets")
    @classmethod
    def _variables(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"{name!r} is no name of an environment variable")
        return value


class TaskSpec(_Settings):
    """A task before its sweep is expanded.

    Attributes:
        name: Its own among the job's.
        command: A program with its arguments, or a line for ``sh -c``; none for what an image
            runs by itself.
        workload: A workload for ``tarmac train`` instead, with ``settings``.
        settings: Its options and settings.
        needs: Names of tasks that must have succeeded before.
        on_failure: Whether what needs it is skipped when it has failed, or goes on.
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
            raise ValueError(f"{', '.join(wrong)}: no part of a job with a pipeline")
        return
    if isinstance(spec, Job) and spec.algorithms:
        raise ValueError("algorithms belong to a pipeline")
    if spec.command is not None and spec.workload is not None:
        raise ValueError("expected one of command and workload")
    has_none = spec.command is None and spec.workload is None
    # An image may bring its own, which a job's image may be.
    is_own = isinstance(spec, TaskSpec) and "environment" not in spec.model_fields_set
    if has_none and not isinstance(spec.environment, Container) and not is_own:
        raise ValueError("expected one of command and workload")
    if spec.command is not None and not spec.command:
        raise ValueError("command is empty")
    if spec.settings and spec.workload is None:
        raise ValueError("settings belong to a workload")


# A pipeline's nodes say what they need, and its algorithms what they run in; what an engine alone
# understands holds for all of them.
_NOT_OF_PIPELINES = frozenset(
    {*_Settings.model_fields, "command", "workload", "settings", "tasks", "after_all"}
) - {"options"}


class Job(_Settings):
    """A job: one program, several tasks, or a pipeline whose tasks come as it goes.

    What it sets holds for each task that does not set the same itself; ``env``, ``secrets``,
    ``inputs`` and ``outputs`` add up.

    Attributes:
        name: For people, and in the run's name.
        command: Command line of a job with a single task: words, or a text for ``sh -c``.
        workload: Workload for ``tarmac train`` in a job with a single task, instead of a command.
        settings: Settings of the workload, by name.
        tasks: Tasks of a job with several, instead of a command or workload.
        after_all: A task that follows all others, whether they have succeeded or not.
        pipeline: Pipeline in HKube's form, for a job whose tasks are made while it runs.
        algorithms: In HKube's form, the algorithms and the pipelines that its nodes name.
        concurrency: At most so many tasks at once.
        original: What it was converted from, by format: what has no meaning here is not lost.
            0.1 called it ``kept``.
        refusals: What keeps it from being run here, of a job that was converted; a line each.
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
