"""The one model of a job, which every format is read into."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from tarmac.documents import Bytes, Cpus, Seconds  # noqa: TC001 - pydantic reads them
from tarmac.jobs.run_files import within_run
from tarmac.jobs.sweep import Sweep  # noqa: TC001 - pydantic reads it

__all__ = [
    "Container",
    "Environment",
    "Input",
    "Job",
    "Mount",
    "Output",
    "Resources",
    "Retries",
    "Secret",
    "SystemEnvironment",
    "TaskSpec",
    "Venv",
]

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _name(value: Any) -> Any:
    if isinstance(value, str) and not _NAME.fullmatch(value):
        raise ValueError("a name has letters, digits, '.', '_' and '-', at most 128")
    return value


Name = Annotated[str, BeforeValidator(_name)]


def _scalar_text(value: Any) -> Any:
    """Take numbers and booleans for the texts that a program gets to see."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


Text = Annotated[str, BeforeValidator(_scalar_text, json_schema_input_type=bool | float | str)]


class Resources(_Part):
    """What a task needs while it runs.

    Attributes:
        cpus: Cores, also parts of one.
        memory: Bytes; the task is ended when it takes more. None leaves it unlimited.
        gpus: Whole ones, or a part of one that it shares.
        gpu_memory: Bytes that each of its GPUs must have.
        shm: Bytes of shared memory in a container.
        shares_cpus: Whether it may use all of the machine's, together with others. It is still
            counted as ``cpus``.
    """

    cpus: Cpus = 1.0
    memory: Bytes | None = None
    gpus: float = Field(default=0, ge=0)
    gpu_memory: Bytes | None = None
    shm: Bytes | None = None
    shares_cpus: bool = False

    @field_validator("gpus")
    @classmethod
    def _whole_or_part(cls, value: float) -> float:
        if value > 1 and value != int(value):
            raise ValueError("expected a whole number of GPUs, or a part of one below 1")
        return value


class _EnvironmentPart(_Part):
    kind: str

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # What is written without defaults must say its kind all the same.
        written: dict[str, Any] = handler(self)
        return {"kind": self.kind, **written}


class SystemEnvironment(_EnvironmentPart):
    """The machine as it is."""

    kind: Literal["system"] = "system"


class Venv(_EnvironmentPart):
    """A virtual environment of pinned packages, built once.

    Attributes:
        python: A version, ``3.11``, or an interpreter's path; by default Tarmac's own.
        requirements: As pip takes them, or lines ``-r FILE``.
        before: Packages that are installed first, which the requirements are then built with,
            rather than each in isolation.
        build_env: Variables for that build. What it makes is in no cache of wheels, whose keys know
            nothing of them.
    """

    kind: Literal["venv"] = "venv"
    python: Text | None = None
    requirements: tuple[str, ...] = Field(min_length=1)
    before: tuple[str, ...] = ()
    build_env: dict[str, Text] = {}


class Secret(_Part):
    """Where a secret is to be found at launch; never the secret itself.

    Attributes:
        env: A variable of the launcher's.
        file: A file's path.
        name: Of a Kubernetes secret, with ``key``; the user's configuration maps it.
        vault_id: Of Azure Key Vault; the user's configuration maps it.
    """

    env: str | None = None
    file: str | None = None
    name: str | None = None
    key: str | None = None
    vault_id: str | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Secret:
        given = [field for field in ("env", "file", "name", "vault_id") if getattr(self, field)]
        if len(given) != 1 or (self.key is None) == (self.name is not None):
            raise ValueError("expected one of env, file, vault_id, or name with key")
        return self

    def __str__(self) -> str:
        """Return the reference in words, for plans."""
        if self.env is not None:
            return f"(secret: variable {self.env})"
        if self.file is not None:
            return f"(secret: file {self.file})"
        if self.name is not None:
            return f"(secret: {self.name}/{self.key})"
        return f"(secret: {self.vault_id})"


class Mount(_Part):
    """A directory of the machine's that a container sees."""

    source: str
    target: str
    read_only: bool = False


class Container(_EnvironmentPart):
    """A container of Docker or Podman.

    Attributes:
        image: Its name.
        engine: Which engine; by default the one that is here.
        pull: When the image is fetched.
        user: Whom it runs as.
        entrypoint: Instead of the image's own.
        mounts: Directories that it sees.
        network: ``none``, ``host``, or a network of the engine's; by default the engine's own.
        workdir: Where it starts: by default in the task's directory; empty for the image's own.
        login: Where a registry's ``USER:PASSWORD`` is.
        ipc: ``host`` for the machine's own shared memory and semaphores.
        ulimits: Limits of the engine's form, ``memlock=-1``, ``stack=67108864``.
    """

    kind: Literal["container"] = "container"
    image: str = Field(min_length=1)
    engine: Literal["docker", "podman"] | None = None
    pull: Literal["missing", "always", "never"] = "missing"
    user: Text | None = None
    entrypoint: tuple[str, ...] | None = None
    mounts: tuple[Mount, ...] = ()
    network: str | None = None
    workdir: str | None = None
    login: Secret | None = None
    ipc: Literal["host"] | None = None
    ulimits: tuple[Annotated[str, Field(pattern=r"^[a-z]+=-?\d+(:-?\d+)?$")], ...] = ()


def _environment(value: Any) -> Any:
    """Take ``system``, ``{image: ...}`` and ``{requirements: ...}`` without their kind."""
    if value == "system":
        return {"kind": "system"}
    if isinstance(value, dict) and "kind" not in value:
        if "image" in value:
            return {"kind": "container", **value}
        if "requirements" in value:
            return {"kind": "venv", **value}
        raise ValueError("expected system, or a mapping with image or requirements")
    return value


Environment = Annotated[
    Annotated[SystemEnvironment | Venv | Container, Field(discriminator="kind")],
    BeforeValidator(
        _environment,
        json_schema_input_type=Literal["system"] | SystemEnvironment | Venv | Container,
    ),
]


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


class Input(_Part):
    """A file or a directory that a task finds in its directory.

    Attributes:
        source: A URL, a path, or ``run:PATH``, what another task has kept there; ``from`` in files.
            In an object store, what is not an object is the directory of all objects below it.
        to: Where, below the task's directory; by default under its own name. ``.`` is the task's
            directory itself.
        sha256: Of its content, which is then checked.
        mode: Its permissions, ``0755``.
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


class Output(_Part):
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


class Retries(_Part):
    """When a task is tried again.

    Attributes:
        count: At most so often.
        backoff: Seconds before the first; they double each time.
        exit_codes: Only on these; on any but 0 by default.
    """

    count: int = Field(default=0, ge=0)
    backoff: Seconds = 1.0
    exit_codes: tuple[int, ...] = ()


def _retries(value: Any) -> Any:
    return {"count": value} if isinstance(value, int) and not isinstance(value, bool) else value


class _Settings(_Part):
    """What a job sets for all its tasks, and each task for itself."""

    environment: Environment = SystemEnvironment()
    resources: Resources = Resources()
    env: dict[str, Text] = {}
    secrets: dict[str, Secret] = {}
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    timeout: Seconds | None = None
    retries: Annotated[Retries, BeforeValidator(_retries, json_schema_input_type=int | Retries)] = (
        Retries()
    )
    priority: int = 0
    sweep: Sweep | None = None

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
    command: tuple[Text, ...] | str | None = None
    workload: str | None = None
    settings: dict[str, Text] = {}
    needs: tuple[str, ...] = ()
    on_failure: Literal["skip", "continue"] = "skip"

    @model_validator(mode="after")
    def _one_program(self) -> TaskSpec:
        _check_program(self)
        return self


def _check_program(spec: TaskSpec | Job) -> None:
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


class Job(_Settings):
    """A job: one program, or several tasks.

    What it sets holds for each task that does not set the same itself; ``env``, ``secrets``,
    ``inputs`` and ``outputs`` add up.

    Attributes:
        name: For people, and in the run's name.
        command: Of a job of one task.
        workload: Of a job of one task, instead of a command.
        settings: Of the workload.
        tasks: Of a job of several.
        after_all: A task that follows all others, whether they have succeeded or not.
        concurrency: At most so many tasks at once.
        original: What it was converted from, by format: what has no meaning here is not lost.
            0.1 called it ``kept``.
        refusals: What keeps it from being run here, of a job that was converted; a line each.
    """

    name: Name
    command: tuple[Text, ...] | str | None = None
    workload: str | None = None
    settings: dict[str, Text] = {}
    tasks: tuple[TaskSpec, ...] = ()
    after_all: TaskSpec | None = None
    concurrency: int | None = Field(default=None, ge=1)
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
