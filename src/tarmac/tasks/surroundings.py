"""The environment of a task: the machine as it is, installed packages, or a container."""

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
from tarmac.tasks.parts import Part, Text, by_variable


class _EnvironmentPart(Part):
    kind: str

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Serialization without defaults must still write the kind.
        written: dict[str, Any] = handler(self)
        return {"kind": self.kind, **written}


class SystemEnvironment(_EnvironmentPart):
    """The machine as it is."""

    kind: Literal["system"] = "system"


class BuiltEnvironment(_EnvironmentPart):
    """An environment of packages, which is built once or exists."""


def _by_cuda(value: Any) -> Any:
    """Convert a list to requirements for any CUDA version."""
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
        python: Python version, ``3.11``, or an interpreter's path. Default: Tarmac's own.
        requirements: Requirements in pip's form, or lines ``-r FILE``.
        gpu_requirements: Requirements for a task with GPUs, instead of `requirements`: a list, or
            lists by CUDA version, ``cuda12``, ``cuda12.4``, or ``cuda`` for any. The newest version
            that the driver supports is used, on the machine that builds the environment.
        before: Packages to install first; the requirements are then built with them rather than
            each in isolation.
        gpu_before: Packages to install first for a task with GPUs, instead of `before`.
        build_env: Environment variables of that build. Its results are not cached as wheels,
            because the cache's keys do not include the variables.
        gpu_build_env: Environment variables that a task with GPUs adds to `build_env`.
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
    build_env: Annotated[dict[str, Text], AfterValidator(by_variable)] = Field(default={})
    gpu_build_env: Annotated[dict[str, Text], AfterValidator(by_variable)] = Field(default={})

    @property
    def is_for_gpus(self) -> bool:
        """Whether the environment has settings for GPUs."""
        return bool(self.gpu_requirements or self.gpu_before or self.gpu_build_env)

    @property
    def needs_driver(self) -> bool:
        """Whether `for_driver` must choose requirements by the driver's CUDA version."""
        return bool(self.gpu_requirements.keys() - {"cuda"})

    def chosen(self, *, with_gpus: bool) -> Venv:
        """Return the environment of a task with or without GPUs.

        Where it `needs_driver`, `for_driver` must still choose the requirements of a task with
        GPUs.
        """
        if not with_gpus:
            names = ("gpu_requirements", "gpu_before", "gpu_build_env")
            defaults = {name: type(self).model_fields[name].default for name in names}
            return self.model_copy(update=defaults)
        return self if self.needs_driver else self.for_driver(None)

    def cuda_for(self, driver: str | None) -> str:
        """Return the key of the requirements for the newest CUDA version that a driver supports.

        Args:
            driver: Newest CUDA version that the driver supports, ``12.8``; None without a driver.

        Raises:
            RequestError: No requirements fit the driver.
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
                hint="Find the cause: tarmac check. Requirements for any driver have the key cuda",
            )
        raise RequestError(
            f"gpu_requirements are for {names}, and the driver on {host} runs CUDA {driver} at "
            "most",
            hint=f"Update the driver, or add requirements for it: cuda{runs[0]}: [...]",
        )

    def for_driver(self, driver: str | None) -> Venv:
        """Return the environment with its GPU settings applied, and the requirements of `cuda_for`.

        Raises:
            RequestError: No requirements fit the driver.
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
    """The environment of a project or script: ``uv.lock``, ``pixi.lock`` or ``pyproject.toml``.

    Attributes:
        path: Directory of the project, or a Python file with a block ``# /// script``.
        extras: Optional dependencies of the project to install too.
        groups: Dependency groups of the project to install too.
        python: Python version, ``3.11``, or an interpreter's path. Default: the first that fits.
        environment: Name of an environment in ``pixi.lock``. Default: ``default``.
    """

    kind: Literal["project"] = "project"
    path: str = Field(min_length=1)
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    python: Text | None = None
    environment: Text | None = Field(default=None, min_length=1)


class Conda(BuiltEnvironment):
    """An environment of conda packages.

    Attributes:
        file: File to build the environment from: ``environment.yml``, an explicit list, or a lock
            file of conda-lock or pixi. With `name` or `prefix`: the packages that the environment
            must have.
        name: Name of an existing environment.
        prefix: Directory of an existing environment.
        tool: Tool that builds the environment instead of rattler: ``conda``, ``mamba`` or
            ``micromamba``. It must be on the ``PATH`` of the machine where the task runs.
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
            raise ValueError(
                "tool builds an environment from a file; name and prefix choose an existing one"
            )
        return self

    @property
    def is_built(self) -> bool:
        """Whether Tarmac builds the environment, rather than uses an existing one."""
        return self.name is None and self.prefix is None


class Secret(Part):
    """A reference to a secret, resolved at launch; never the secret itself.

    Attributes:
        env: Environment variable of the launching process.
        file: Path of the file that holds the secret.
        name: Name of a Kubernetes secret, used with ``key``; the user's secret mapping resolves it.
        vault_id: Id of a secret in Azure Key Vault; the user's secret mapping resolves it.
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
        """Return the reference as text, for plans."""
        if self.env is not None:
            return f"(secret: variable {self.env})"
        if self.file is not None:
            return f"(secret: file {self.file})"
        if self.name is not None:
            return f"(secret: {self.name}/{self.key})"
        return f"(secret: {self.vault_id})"


class Mount(Part):
    """A directory of the machine that is mounted into a container."""

    source: str
    target: str
    read_only: bool = False


class Container(_EnvironmentPart):
    """A container of Docker or Podman; on clusters also of Apptainer or Pyxis.

    Attributes:
        image: Name of the image, such as ``nvcr.io/nvidia/pytorch:26.01-py3``.
        engine: Name of the container engine; ``apptainer`` and ``pyxis`` are for clusters. Default:
            the engine that is installed.
        pull: When the image is pulled. Default ``missing``.
        user: User that the container runs as. None: the image's default.
        entrypoint: Command line that replaces the image's entrypoint. None: the image's own.
        mounts: Directories of the machine that are mounted into the container.
        network: ``none``, ``host``, or a network of the engine. None: the engine's default.
        workdir: Working directory of the container. None: the task's directory; empty: the image's
            own.
        login: Reference to the secret with a registry's ``USER:PASSWORD``.
        ipc: ``host`` to share the machine's shared memory and semaphores. None: not shared.
        ulimits: Limits in the engine's form, ``memlock=-1``, ``stack=67108864``.
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


# Keys that imply the kind of an environment.
_KINDS = {
    "image": "container",
    "requirements": "venv",
    "path": "project",
    "file": "conda",
    "prefix": "conda",
}


def _environment(value: Any) -> Any:
    """Convert ``system``, and mappings whose kind follows from a key."""
    if value == "system":
        return {"kind": "system"}
    if isinstance(value, dict) and "kind" not in value:
        for key, kind in _KINDS.items():
            if key in value:
                return {"kind": kind, **value}
        raise ValueError(
            f"expected system, or a mapping with {', '.join(_KINDS)} or kind; "
            "variables belong in env"
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
