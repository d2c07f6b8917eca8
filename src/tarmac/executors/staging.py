"""Staging for tasks: inputs and environments before a task, outputs after it.

An executor sends the requests to its staging processes, which return the answers.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tarmac.environments import (
    CondaSpec,
    ProjectSpec,
    VenvSpec,
    activated,
    build_venv,
    existing_prefix,
    node_directory,
    pull_with_login,
    shipped_venv,
)
from tarmac.masking import remember_environment, without_known
from tarmac.tasks.inputs import fetch_inputs
from tarmac.tasks.model import Conda, Container, Environment, Input, Output, Project, Secret, Venv
from tarmac.tasks.outputs import keep_outputs
from tarmac.tasks.receipts import FileKept, Receipt
from tarmac.tasks.run_files import within_run
from tarmac.tasks.secrets import resolve_secrets


@dataclasses.dataclass(frozen=True)
class StageIn:
    """A request to bring a task's inputs and make its environment.

    Attributes:
        inputs: Inputs to bring, each with its source and its path in the task's directory.
        environment: Virtual environment, conda environment or container of the task.
        base: Directory that relative paths start from.
        shared: Directory where tasks keep files for other tasks of the run.
        work: The task's working directory, which is emptied first.
        engine: The container engine's program, where the environment is a container.
        mapping: Secrets of this machine, by the name that job files use.
        archives: Directory that keeps built environments for other nodes, which unpack them on
            their own disks; None to use an environment where it is built.
        keeps_work: Whether to leave the working directory as it is, because another node filled it.
        kept: Name in the working directory that survives from earlier attempts; empty for none.
    """

    inputs: Sequence[Input]
    environment: Environment
    base: Path
    shared: Path
    work: Path
    engine: str | None
    mapping: Mapping[str, Secret]
    archives: Path | None = None
    keeps_work: bool = False
    kept: str = ""

    def perform(self) -> Mapping[str, str]:
        """Stage in; return the variables of the environment."""
        self.work.mkdir(parents=True, exist_ok=True)
        if not self.keeps_work:
            _empty(self.work, self.kept)
        inputs = [
            entry.model_copy(update={"source": within_run(entry.source, self.shared)})
            for entry in self.inputs
        ]
        fetch_inputs(inputs, self.base, self.work)
        environment = self.environment
        if isinstance(environment, Conda):
            return self._of_conda(environment)
        if isinstance(environment, (Venv, Project)):
            spec = venv_spec(environment)
            if self.archives is None:
                venv = build_venv(spec, self.base)
            else:
                venv = shipped_venv(spec, self.base, self.archives, node_directory() / "venvs")
            if (venv / "conda-meta").is_dir():
                return activated(venv, os.environ)
            path = os.environ.get("PATH", "")
            return {"VIRTUAL_ENV": str(venv), "PATH": f"{venv / 'bin'}:{path}"}
        if isinstance(environment, Container) and environment.login is not None:
            secret = {"login": environment.login}
            credentials = resolve_secrets(secret, os.environ, self.mapping, self.base)["login"]
            assert self.engine is not None
            pull_with_login(self.engine, environment.image, credentials, when=environment.pull)
        return {}

    def _of_conda(self, environment: Conda) -> Mapping[str, str]:
        spec = _conda_spec(environment)
        if not environment.is_built:
            return activated(existing_prefix(spec, self.base), os.environ)
        # Conda files contain their own path, so each node builds the environment at its own path.
        root = None if self.archives is None else node_directory() / "venvs"
        return activated(build_venv(spec, self.base, root), os.environ)


@dataclasses.dataclass(frozen=True)
class StageOut:
    """A request to keep a task's outputs.

    Attributes:
        outputs: Outputs to keep, each with its path and its destination.
        base: Directory that relative destinations start from.
        shared: Directory where tasks keep files for other tasks of the run.
        work: The task's working directory, where its outputs are.
        succeeded: Whether the task has succeeded.
        kept: Name in the working directory that outlives each attempt, maybe a link; empty for
            none.
        receipt: Receipt to leave in the store after the outputs; None for none.
    """

    outputs: Sequence[Output]
    base: Path
    shared: Path
    work: Path
    succeeded: bool
    kept: str = ""
    receipt: Receipt | None = None

    def perform(self) -> Sequence[str]:
        """Stage out; return the errors, a line each."""
        outputs = [
            output.model_copy(update={"to": within_run(output.to, self.shared)})
            for output in self.outputs
        ]
        files: list[FileKept] = []
        problems = keep_outputs(
            outputs,
            self.work,
            self.base,
            succeeded=self.succeeded,
            linked=self.kept,
            on_kept=lambda path, to: files.append(FileKept(to, path.stat().st_size)),
        )
        if self.receipt is not None and self.succeeded and not problems:
            self.receipt.leave(files)
        return problems


@dataclasses.dataclass(frozen=True)
class Answer:
    """The result of a request.

    Attributes:
        variables: Environment variables of the environment, after a `StageIn`.
        problems: Errors of outputs, a line each, after a `StageOut`.
        error: Error for people; None where the request succeeded.
    """

    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    problems: Sequence[str] = ()
    error: str | None = None


def _empty(directory: Path, kept: str) -> None:
    """Remove the content of a directory except one name."""
    for entry in os.scandir(directory):
        if entry.name == kept:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            Path(entry.path).unlink()


def venv_spec(environment: Venv | Project) -> VenvSpec | ProjectSpec:
    """Return what this machine builds a task's virtual environment from.

    Raises:
        RequestError: The driver here supports no CUDA version of the environment's requirements.
    """
    if isinstance(environment, Project):
        return ProjectSpec(
            path=environment.path,
            extras=environment.extras,
            groups=environment.groups,
            python=environment.python,
            environment=environment.environment,
        )
    if environment.needs_driver:
        # NVML is slow to import, and each staging of a task would wait for it.
        from tarmac.machine import newest_cuda  # noqa: PLC0415

        environment = environment.for_driver(newest_cuda())
    return VenvSpec(
        requirements=environment.requirements,
        python=environment.python,
        before=environment.before,
        build_env=environment.build_env,
    )


def environment_spec(environment: Venv | Project | Conda) -> VenvSpec | ProjectSpec | CondaSpec:
    """Return what a task's environment is built from, or its location."""
    if isinstance(environment, Conda):
        return _conda_spec(environment)
    return venv_spec(environment)


def _conda_spec(environment: Conda) -> CondaSpec:
    return CondaSpec(environment.file, environment.name, environment.prefix, environment.tool)


def perform(request: StageIn | StageOut) -> Answer:
    """Perform a request; errors go into the answer."""
    try:
        if isinstance(request, StageIn):
            return Answer(variables=request.perform())
        return Answer(problems=tuple(map(without_known, request.perform())))
    except Exception as error:
        remember_environment(os.environ)
        return Answer(error=without_known(str(error)) or type(error).__name__)
