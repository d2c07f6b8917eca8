"""The staging request for an attempt's node, and its answer, as JSON.

An agent cannot stage inputs, containers or environments itself. Where an attempt has any, the
agent passes the request to Tarmac on the node, see `tarmac.executors.stage`.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from tarmac.environments import (
    ClusterEngine,
    find_cluster_engine,
    image_file,
    node_directory,
    pull_once,
)
from tarmac.errors import TarmacError
from tarmac.executors.staging import StageIn, StageOut
from tarmac.files import parse_json
from tarmac.processes import MARK
from tarmac.tasks.cluster_containers import (
    apptainer_command,
    image_name,
    pyxis_command,
    pyxis_kill_command,
    refuse_unknown_settings,
)
from tarmac.tasks.containers import ContainerRun, container_command, was_out_of_memory
from tarmac.tasks.machine import Grant
from tarmac.tasks.model import (
    Container,
    Environment,
    Input,
    Output,
    Resources,
)
from tarmac.tasks.outputs import refuse_unknown_stores
from tarmac.tasks.receipts import Receipt
from tarmac.tasks.secrets import resolve_secrets

Phase = Literal["in", "environment", "out"]

# The engine's exit code for a container that SIGKILL ended.
_KILLED = 137

# Longer than a Docker daemon on a busy machine keeps its events.
_EVENTS_S = 86_400.0


@dataclasses.dataclass(frozen=True)
class NodeAnswer:
    """The result of a staging request.

    Attributes:
        error: Error for people; None where the request succeeded.
        variables: Additional variables for the program's environment.
        command: Command that replaces the task's own; None to keep the task's own.
        kill_command: Command that ends the container, where killing its client is not enough; may
            be empty.
        problems: Errors of outputs, a line each.
        is_over_memory: Whether a container was ended for taking more memory than its limit.
        done_before: URI of the receipt which proves that an earlier attempt completed the task;
            empty for none.
    """

    error: str | None = None
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    command: Sequence[str] | None = None
    kill_command: Sequence[str] = ()
    problems: Sequence[str] = ()
    is_over_memory: bool = False
    done_before: str = ""

    def to_text(self) -> str:
        """Return the answer as one JSON object, which the agent reads."""
        return json.dumps(dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeRequest:
    """The inputs, environment and outputs that a node stages for an attempt.

    Attributes:
        name: Name for the attempt's container, unique among all containers of this user.
        base: Directory that relative paths start from: the job file's.
        shared: Directory where tasks keep files for other tasks of the run.
        inputs: Inputs to bring, each with its source and its path in the task's directory.
        outputs: Outputs to keep, each with its path and its destination.
        environment: Virtual environment, conda environment or container of the task.
        command: Program and arguments to run in a container; empty for any other environment.
        resources: CPUs, memory and GPUs that the task needs.
        names: Names of variables to pass into a container, secrets among them.
        store: Directory that all nodes see, for environments and images that were made for nodes.
        engine: Container engine of the job's options; None for the first engine that is installed.
        is_pretending: Whether the GPUs are pretended ones.
        clients: JSON file of variables for clients of stores and for installers. They may hold
            passwords. None where there are no such variables.
        settings: Variables for clients of stores, without secrets. Variables of the node take
            precedence.
        receipt: Receipt to leave in the task's store, where only the store outlives an attempt;
            None to leave no receipt.
        retried_on: Exit codes that a retry follows, which needs no outputs of this attempt. Empty
            for all codes; None for no retry.
        kept: Name in the task's directory that outlives its attempts; empty for none.
    """

    name: str
    base: Path
    shared: Path
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    environment: Environment
    command: tuple[str, ...]
    resources: Resources
    store: Path
    names: tuple[str, ...] = ()
    engine: str | None = None
    is_pretending: bool = False
    clients: Path | None = None
    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    receipt: Receipt | None = None
    retried_on: tuple[int, ...] | None = None
    kept: str = ""

    def to_text(self) -> str:
        """Return the request as JSON, which preserves file names of any bytes."""
        return json.dumps(_ADAPTER.dump_python(self, mode="json", by_alias=True))

    @classmethod
    def from_text(cls, text: str) -> NodeRequest:
        """Parse a request.

        Raises:
            TarmacError: The text is no request; another version of Tarmac may have written it.
        """
        try:
            return _ADAPTER.validate_python(parse_json(text))
        except (ValidationError, ValueError) as error:
            raise TarmacError(
                "the staging request was written by another version of Tarmac",
                hint="Resume with the version that started the run, or start a new run",
            ) from error

    def bring(self, work: Path, *, only_environment: bool) -> NodeAnswer:
        """Bring the inputs and make the environment.

        Args:
            work: The task's working directory, which is emptied first.
            only_environment: Whether another node brings the inputs to the same directory.

        Raises:
            OSError: A file is not available.
            TarmacError: An input, an image or an environment is not available.
        """
        if not only_environment:
            # Refuse before the program's hours of work, not after them.
            refuse_unknown_stores(self.outputs)
            if self.receipt is not None and self.receipt.is_there():
                return NodeAnswer(done_before=self.receipt.uri)
        container = self.environment if isinstance(self.environment, Container) else None
        engine = None if container is None else find_cluster_engine(self._engine_name(container))
        if container is not None and engine is not None:
            refuse_unknown_settings(container, engine.name)
        request = StageIn(
            inputs=() if only_environment else self.inputs,
            environment=self._without_pull(),
            base=self.base,
            shared=self.shared,
            work=work,
            engine=None if engine is None else engine.program,
            mapping={},
            archives=self.store,
            keeps_work=only_environment,
            kept=self.kept,
        )
        variables = request.perform()
        if container is None or engine is None:
            return NodeAnswer(variables=variables)
        return self._in_container(container, engine, work)

    def keep(self, work: Path, *, succeeded: bool, exit_code: int | None) -> NodeAnswer:
        """Keep the outputs, unless another attempt follows.

        Args:
            work: The task's working directory, where its outputs are.
            succeeded: Whether the attempt has succeeded.
            exit_code: Exit code of the program; None where it was not started.
        """
        follows = not succeeded and self.retried_on is not None
        if follows and self.retried_on and exit_code not in self.retried_on:
            follows = False
        over = exit_code == _KILLED and self._was_out_of_memory()
        if follows:
            return NodeAnswer(is_over_memory=over)
        request = StageOut(
            outputs=self.outputs,
            base=self.base,
            shared=self.shared,
            work=work,
            succeeded=succeeded,
            kept=self.kept,
            receipt=self.receipt,
        )
        return NodeAnswer(problems=tuple(request.perform()), is_over_memory=over)

    def client_variables(self) -> dict[str, str]:
        """Return the variables for clients of stores and installers.

        Raises:
            TarmacError: The file of variables cannot be read on this node.
        """
        if self.clients is None:
            return {name: value for name, value in self.settings.items() if name not in os.environ}
        try:
            variables: dict[str, str] = parse_json(self.clients.read_bytes())
        except (OSError, ValueError) as error:
            raise TarmacError(
                f"{self.clients}: the settings for stores and installers cannot be read here: "
                f"{error}",
                hint="Name a directory that the nodes see: TARMAC_SPOOL=DIRECTORY",
            ) from error
        return variables

    def _engine_name(self, container: Container) -> str | None:
        # The task's own setting takes precedence over the job's options.
        return container.engine or self.engine

    def _in_container(self, container: Container, engine: ClusterEngine, work: Path) -> NodeAnswer:
        devices = "" if self.is_pretending else os.environ.get("CUDA_VISIBLE_DEVICES", "")
        gpus = tuple(uuid for uuid in devices.split(",") if uuid)
        needs = self.resources
        run = ContainerRun(
            container=container,
            command=self.command,
            resources=needs,
            grant=Grant(needs.cpus, needs.memory or 0, gpus, min(1.0, needs.gpus)),
            name=self.name,
            work=work,
            base=self.base,
            variables={},
            names=self.names,
        )
        if engine.name == "apptainer":
            image = self._image(container, engine)
            return NodeAnswer(command=apptainer_command(run, program=engine.program, image=image))
        if engine.name == "pyxis":
            image = self._image(container, engine)
            node = os.environ.get("SLURMD_NODENAME", "localhost")
            command = pyxis_command(run, program=engine.program, image=image, node=node)
            return NodeAnswer(command=command, kill_command=pyxis_kill_command(self.name))
        pull_once(
            engine.program,
            container.image,
            node_directory() / "images",
            credentials=self._credentials(container),
            when=container.pull,
            run=str(self.shared),
        )
        # The image is on the node by now, or must never be pulled.
        run = dataclasses.replace(run, container=container.model_copy(update={"pull": "never"}))
        command = container_command(run, engine=engine.program, mark=os.environ.get(MARK, ""))
        return NodeAnswer(command=command, kill_command=(engine.program, "kill", self.name))

    def _without_pull(self) -> Environment:
        """Return the environment for `StageIn` without its login, so that it pulls no image."""
        if not isinstance(self.environment, Container):
            return self.environment
        return self.environment.model_copy(update={"login": None})

    def _image(self, container: Container, engine: ClusterEngine) -> str:
        name = image_name(container.image, engine.name, self.base)
        if name.startswith("/"):
            return name
        path = image_file(
            engine,
            name,
            self.store / "images",
            credentials=self._credentials(container),
            when=container.pull,
            run=str(self.shared),
        )
        return str(path)

    def _credentials(self, container: Container) -> str | None:
        if container.login is None:
            return None
        secrets = {"login": container.login}
        return resolve_secrets(secrets, os.environ, {}, self.base)["login"]

    def _was_out_of_memory(self) -> bool:
        container = self.environment
        if not isinstance(container, Container) or self.resources.memory is None:
            return False
        engine = find_cluster_engine(self._engine_name(container))
        return engine.name == "docker" and was_out_of_memory(engine.program, self.name, _EVENTS_S)


_ADAPTER = TypeAdapter(NodeRequest)
