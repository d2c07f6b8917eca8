"""Where a task runs: the machine as it is, a virtual environment, or a container."""

from __future__ import annotations

import re
import socket
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from tarmac.errors import RequestError
from tarmac.jobs.parts import Part, Text


class _EnvironmentPart(Part):
    kind: str

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # What is written without defaults must say its kind all the same.
        written: dict[str, Any] = handler(self)
        return {"kind": self.kind, **written}


class SystemEnvironment(_EnvironmentPart):
    """The machine as it is."""

    kind: Literal["system"] = "system"


class BuiltEnvironment(_EnvironmentPart):
    """One of packages, which is built once or exists."""


def _by_cuda(value: Any) -> Any:
    """Take a list, which is for any CUDA."""
    if isinstance(value, (list, tuple)):
        return {"cuda": value} if value else {}
    if not isinstance(value, dict):
        raise ValueError("expected a list, or lists by CUDA's version: cuda12: [...]")  # noqa: TRY004
    return value


def _cuda_key(key: str) -> str:
    if not re.fullmatch(r"cuda(\d+(\.\d+)?)?", key, re.ASCII):
        raise ValueError("expected cuda, or a version of it such as cuda12 or cuda12.4")
    return key


def _any_requirement(lines: tuple[str, ...]) -> tuple[str, ...]:
    if not lines:
        raise ValueError("expected at least one requirement")
    return lines


class Venv(BuiltEnvironment):
    """A virtual environment of pinned packages.

    Attributes:
        python: A version, ``3.11``, or an interpreter's path; by default Tarmac's own.
        requirements: As pip takes them, or lines ``-r FILE``.
        gpu_requirements: In their place for a task that asks for GPUs: a list, or lists by the
            CUDA that they need, ``cuda12``, ``cuda12.4``, or ``cuda`` for any. The newest counts
            that the driver of the machine runs where the environment is built.
        before: Packages that are installed first, which the requirements are then built with,
            rather than each in isolation.
        gpu_before: In their place for a task that asks for GPUs.
        build_env: Variables for that build. What it makes is in no cache of wheels, whose keys know
            nothing of them.
        gpu_build_env: Variables that are added for a task that asks for GPUs.
    """

    kind: Literal["venv"] = "venv"
    python: Text | None = None
    requirements: tuple[str, ...] = Field(min_length=1)
    gpu_requirements: Annotated[
        dict[
            Annotated[str, AfterValidator(_cuda_key)],
            Annotated[tuple[str, ...], AfterValidator(_any_requirement)],
        ],
        BeforeValidator(
            _by_cuda, json_schema_input_type=tuple[str, ...] | dict[str, tuple[str, ...]]
        ),
    ] = Field(default={})
    before: tuple[str, ...] = ()
    gpu_before: tuple[str, ...] = ()
    build_env: dict[str, Text] = Field(default={})
    gpu_build_env: dict[str, Text] = Field(default={})

    @property
    def is_for_gpus(self) -> bool:
        """Whether `chosen` has taken what is for GPUs."""
        return bool(self.gpu_requirements or self.gpu_before or self.gpu_build_env)

    @property
    def needs_driver(self) -> bool:
        """Whether `for_driver` has a choice to make."""
        return bool(self.gpu_requirements.keys() - {"cuda"})

    def chosen(self, *, with_gpus: bool) -> Venv:
        """Return the environment of a task that asks for GPUs, or for none.

        Where it `needs_driver`, that of a task with GPUs is still to be made by `for_driver`.
        """
        if not with_gpus:
            names = ("gpu_requirements", "gpu_before", "gpu_build_env")
            defaults = {name: type(self).model_fields[name].default for name in names}
            return self.model_copy(update=defaults)
        return self if self.needs_driver else self.for_driver(None)

    def cuda_for(self, driver: str | None) -> str:
        """Return the key of the requirements for the newest CUDA that a driver runs.

        Args:
            driver: The newest CUDA version that it runs, ``12.8``; None where no driver answers.

        Raises:
            RequestError: None of them is for that driver.
        """
        versions = {key: _version(key.removeprefix("cuda")) for key in self.gpu_requirements}
        runs = () if driver is None else _version(driver)
        fitting = [key for key, version in versions.items() if version <= runs]
        if fitting:
            return max(fitting, key=versions.__getitem__)
        names = ", ".join(sorted(versions, key=versions.__getitem__))
        host = socket.gethostname()
        if driver is None:
            raise RequestError(
                f"gpu_requirements are for {names}, and no NVIDIA driver answers on {host}",
                hint="See why: tarmac check. Requirements for any driver have the key cuda",
            )
        raise RequestError(
            f"gpu_requirements are for {names}, and the driver on {host} runs CUDA {driver} at "
            "most",
            hint=f"Update the driver, or add requirements for it: cuda{runs[0]}: [...]",
        )

    def for_driver(self, driver: str | None) -> Venv:
        """Return it with what is for GPUs in place, and the requirements of `cuda_for`.

        Raises:
            RequestError: None of them is for that driver.
        """
        by_cuda = self.gpu_requirements
        return self.model_copy(
            update={
                "requirements": by_cuda[self.cuda_for(driver)] if by_cuda else self.requirements,
                "before": self.gpu_before or self.before,
                "build_env": self.build_env | self.gpu_build_env,
            }
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part)


class Project(BuiltEnvironment):
    """The environment of a project, by its ``uv.lock``, ``pixi.lock`` or ``pyproject.toml``.

    Or of a script.

    Attributes:
        path: The project's directory, or a Python file with a block ``# /// script``.
        extras: Optional dependencies of the project to install too.
        groups: Groups of its dependencies to install too.
        python: A version, ``3.11``, or an interpreter's path; by default the first that fits.
        environment: Name of an environment in ``pixi.lock``. Default: ``default``.
    """

    kind: Literal["project"] = "project"
    path: str = Field(min_length=1)
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    python: Text | None = None
    environment: Text | None = Field(default=None, min_length=1)


class Conda(BuiltEnvironment):
    """An environment of conda's packages.

    Attributes:
        file: ``environment.yml``, an explicit list, or a lock of conda-lock's or pixi's, by which
            one is built; beside a name or a prefix, what that one must have.
        name: The name of one that exists.
        prefix: The directory of one that exists.
        tool: What builds it in the place of rattler: ``conda``, ``mamba`` or ``micromamba``, which
            must be on the ``PATH`` of the machine where the task runs.
    """

    kind: Literal["conda"] = "conda"
    file: str | None = Field(default=None, min_length=1)
    name: Text | None = Field(default=None, min_length=1)
    prefix: str | None = Field(default=None, min_length=1)
    tool: Literal["conda", "mamba", "micromamba"] | None = None

    @model_validator(mode="after")
    def _built_or_there(self) -> Conda:
        if self.name is not None and self.prefix is not None:
            raise ValueError("expected name or prefix, not both")
        exists = self.name is not None or self.prefix is not None
        if self.file is None and not exists:
            raise ValueError("expected one of file, name and prefix")
        if self.tool is not None and exists:
            raise ValueError("tool builds what a file says; name and prefix are of one that exists")
        return self

    @property
    def is_built(self) -> bool:
        """Whether it is built, rather than there."""
        return self.name is None and self.prefix is None


class Secret(Part):
    """Where a secret is to be found at launch; never the secret itself.

    Attributes:
        env: A variable of the launcher's.
        file: Path of the file that holds the secret.
        name: Name of a Kubernetes secret, used with ``key``; the user's configuration maps it.
        vault_id: Id of a secret in Azure Key Vault; the user's configuration maps it.
    """

    env: str | None = None
    file: str | None = None
    name: str | None = None
    key: str | None = None
    vault_id: str | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Secret:
        fields = [field for field in ("env", "file", "name", "vault_id") if getattr(self, field)]
        if len(fields) != 1 or (self.key is None) == (self.name is not None):
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


class Mount(Part):
    """A directory of the machine's that a container sees."""

    source: str
    target: str
    read_only: bool = False


class Container(_EnvironmentPart):
    """A container of Docker or Podman; on clusters also of Apptainer or Pyxis.

    Attributes:
        image: Name of the image, such as ``nvcr.io/nvidia/pytorch:26.01-py3``.
        engine: Name of the container engine; ``apptainer`` and ``pyxis`` are for clusters. Default:
            the engine that is installed.
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
    engine: Literal["docker", "podman", "apptainer", "pyxis"] | None = None
    pull: Literal["missing", "always", "never"] = "missing"
    user: Text | None = None
    entrypoint: tuple[str, ...] | None = None
    mounts: tuple[Mount, ...] = ()
    network: str | None = None
    workdir: str | None = None
    login: Secret | None = None
    ipc: Literal["host"] | None = None
    ulimits: tuple[Annotated[str, Field(pattern=r"^[a-z]+=-?\d+(:-?\d+)?$")], ...] = ()


# Keys that tell the kind of an environment.
_KINDS = {
    "image": "container",
    "requirements": "venv",
    "path": "project",
    "file": "conda",
    "prefix": "conda",
}


def _environment(value: Any) -> Any:
    """Take ``system``, and mappings without their kind that one of their keys tells."""
    if value == "system":
        return {"kind": "system"}
    if isinstance(value, dict) and "kind" not in value:
        for key, kind in _KINDS.items():
            if key in value:
                return {"kind": kind, **value}
        raise ValueError(
            f"expected system, or a mapping with {', '.join(_KINDS)} or kind; "
            "variables belong into env"
        )
    return value


Environment = Annotated[
    Annotated[SystemEnvironment | Venv | Project | Conda | Container, Field(discriminator="kind")],
    BeforeValidator(
        _environment,
        json_schema_input_type=Literal["system"]
        | SystemEnvironment
        | Venv
        | Project
        | Conda
        | Container,
    ),
]
