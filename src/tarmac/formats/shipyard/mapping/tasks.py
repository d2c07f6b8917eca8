"""Conversion of a Batch Shipyard task, except for its name and its factory's values."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from tarmac.errors import quoted
from tarmac.formats.shipyard.mapping.files import (
    NODE_SHARED,
    Transfer,
    read_inputs,
    read_outputs,
    read_resource_files,
)
from tarmac.formats.shipyard.mapping.pool import Pool
from tarmac.formats.shipyard.mapping.registries import Registries
from tarmac.formats.shipyard.mapping.run_options import RunOptions, parse_size, read_options
from tarmac.formats.shipyard.mapping.volumes import Volumes
from tarmac.formats.shipyard.report import Path, Report
from tarmac.jobs import WORK, escape

_CLOCK = re.compile(r"(?:(\d{1,5})\.)?(\d{1,6}):(\d{1,6}):(\d{1,6})")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_AZURE_VARIABLE = re.compile(r"\$\{?(AZ_BATCH_[A-Z_]+)")

# Azure Batch retries without a backoff. This number replaces its -1, no limit, so that tasks end.
MAX_RETRIES = 1000

# A task's directory has no logs here, so both variables have the same value.
_SET_HERE = ("AZ_BATCH_TASK_DIR", "AZ_BATCH_TASK_WORKING_DIR")
_KNOWN_HERE = (
    *_SET_HERE,
    "AZ_BATCH_JOB_ID",
    "AZ_BATCH_TASK_ID",
    "AZ_BATCH_POOL_ID",
    "AZ_BATCH_NODE_SHARED_DIR",
)


@dataclasses.dataclass
class Template:
    """The part that all tasks of the same factory share.

    Attributes:
        fields: Values for the fields of a `TaskSpec` that all the tasks share, by field name.
        command: Command as in the file; a task factory fills in its fields.
        entrypoint: Entrypoint of the container. None for the image's own.
        transfers: Files to take from other tasks' directories.
    """

    fields: dict[str, Any]
    command: str | None
    entrypoint: str | None
    transfers: list[Transfer]


@dataclasses.dataclass
class Reader:
    """The reader of a job's tasks.

    Attributes:
        job: Job of the configuration, already checked.
        path: Keys that lead to the job in the configuration.
        report: Receives problems and differences from Batch Shipyard.
        pool: Pool that the tasks run on.
        volumes: Volumes that tasks may name.
        registries: Registries that images may come from.
        accounts: Receives the aliases of storage accounts.
    """

    job: Mapping[str, Any]
    path: Path
    report: Report
    pool: Pool
    volumes: Volumes
    registries: Registries
    accounts: dict[str, None]

    def read(self, task: Mapping[str, Any], path: Path) -> Template:
        """Read a task, without its name and its factory's values."""
        options = RunOptions()
        where = (*path, "additional_docker_run_options")
        if task.get("additional_docker_run_options"):
            options = read_options(task["additional_docker_run_options"], where, self.report)
        environment = self._environment(task, path, options)
        fields: dict[str, Any] = {"environment": environment}
        resources = self._resources(task, path, options)
        fields["resources"] = resources
        fields["env"], secrets = self._variables(task, path, options)
        if secrets:
            fields["secrets"] = secrets
        inputs, transfers = self._inputs(task, path)
        if inputs:
            fields["inputs"] = inputs
        outputs = [
            *read_outputs(
                task.get("output_data"), (*path, "output_data"), self.report, self.accounts
            )
        ]
        if outputs:
            fields["outputs"] = outputs
        self._limits(task, path, fields)
        if self._exit_option(task, path, "dependency_action")[0] == "satisfy":
            fields["on_failure"] = "continue"
        self._notes(task, path)
        if self._uses_node_directory(task, path, fields):
            fields["env"]["AZ_BATCH_NODE_SHARED_DIR"] = f"{WORK}/{NODE_SHARED}"
            for output in outputs:
                if output["path"] == "*":
                    output["exclude"] = [*output.get("exclude", ()), f"{NODE_SHARED}/*"]
        if task.get("depends_on") and not task.get("id") and task.get("task_factory") is None:
            self.report.wrong((*path, "depends_on"), "a task that depends on others needs an id")
        entrypoint = task.get("entrypoint") or options.entrypoint
        return Template(fields, task.get("command"), entrypoint, transfers)

    def _either(self, task: Mapping[str, Any], path: Path, name: str) -> tuple[Any, Path]:
        """Return a setting of the task, or else of its job, with its path."""
        if task.get(name) is not None:
            return task[name], (*path, name)
        return self.job.get(name), (*self.path, name)

    def _environment(
        self, task: Mapping[str, Any], path: Path, options: RunOptions
    ) -> dict[str, Any]:
        environment: dict[str, Any] = {"kind": "container", "image": self._image(task, path)}
        login = self.registries.login(environment["image"])
        if login is not None:
            environment["login"] = login
        user = options.user or self._user()
        if user is not None:
            environment["user"] = user
        mounts = [*options.mounts, *self.volumes.mounts(self.job, self.path, task, path)]
        if mounts:
            environment["mounts"] = mounts
        if options.network is not None:
            environment["network"] = options.network
        if options.ipc is not None:
            environment["ipc"] = options.ipc
        if options.ulimits:
            environment["ulimits"] = options.ulimits
        workdir, _ = self._either(task, path, "default_working_dir")
        if options.workdir is not None:
            environment["workdir"] = options.workdir
        elif workdir == "container":
            environment["workdir"] = ""
        return environment

    def _image(self, task: Mapping[str, Any], path: Path) -> str:
        docker, old, singularity = (
            task.get(name) for name in ("docker_image", "image", "singularity_image")
        )
        images = [name for name in (docker or old, singularity) if name]
        if len(images) != 1:
            problem = "both are given" if images else "none is given"
            hint = "" if images else "docker_image: pytorch/pytorch"
            self.report.wrong(
                path,
                f"expected one of docker_image and singularity_image, {problem}",
                hint,
                rests_on=("docker_image", "image", "singularity_image"),
            )
            return "none"
        if old and not docker:
            self.report.note((*path, "image"), "is docker_image since 3.0, and is read so")
        image = str(images[0])
        if not re.fullmatch(r"[A-Za-z0-9][^\s]*", image):
            name = "singularity_image" if singularity else "docker_image" if docker else "image"
            self.report.wrong((*path, name), f"{image!r}: an image's name has no blanks")
            return "none"
        if not singularity:
            return image
        where = (*path, "singularity_image")
        if image.startswith("docker://"):
            self.report.note(where, "runs under Docker or Podman, as the same image")
            gpus, place = self._either(task, path, "gpus")
            if gpus not in (None, "all", "disable"):
                self.report.wrong(
                    place, f"{gpus!r}: expected all or disable: Singularity takes no other"
                )
            return image.removeprefix("docker://") or "none"
        self.report.refuse(
            where, f"{image}: there is no Singularity here; docker:// images are run"
        )
        return image

    def _user(self) -> str | None:
        identity = self.job.get("user_identity") or {}
        specific = identity.get("specific_user")
        where = (*self.path, "user_identity")
        if specific is None:
            return None
        if identity.get("default_pool_admin"):
            self.report.wrong(where, "expected one of default_pool_admin and specific_user")
        uid, gid = specific.get("uid"), specific.get("gid")
        if uid is None or gid is None:
            self.report.wrong((*where, "specific_user"), "expected uid and gid")
            return None
        return f"{uid}:{gid}"

    def _resources(
        self, task: Mapping[str, Any], path: Path, options: RunOptions
    ) -> dict[str, Any]:
        resources: dict[str, Any] = {}
        if options.cpus is not None:
            resources["cpus"] = options.cpus
        else:
            resources["shares_cpus"] = True
        if options.memory is not None:
            resources["memory"] = options.memory
        gpus = self.pool.gpus(self.job, self.path, task, path, options.gpus)
        if gpus:
            resources["gpus"] = gpus
        shm, where = self._either(task, path, "shm_size")
        if options.shm is not None:
            resources["shm"] = options.shm
        if shm is not None:
            try:
                resources["shm"] = parse_size(shm)
            except ValueError as error:
                self.report.wrong(where, f"{shm!r}: {error}")
        return resources

    def _variables(
        self, task: Mapping[str, Any], path: Path, options: RunOptions
    ) -> tuple[dict[str, str], dict[str, Any]]:
        env = dict.fromkeys(_SET_HERE, WORK)
        for name, text in options.env.items():
            env[name] = escape(text)
        secrets: dict[str, Any] = {}
        for owner, where, kind in ((self.job, self.path, "JOB"), (task, path, "TASK")):
            for name, value in (owner.get("environment_variables") or {}).items():
                place = (*where, "environment_variables", name)
                if not _VARIABLE.fullmatch(name):
                    self.report.wrong(place, f"{name!r} is no name of a variable")
                elif value is not None:
                    env[name] = escape(str(value))
            vault_id = owner.get("environment_variables_keyvault_secret_id")
            if vault_id:
                variable = f"SHIPYARD_{kind}_ENVIRONMENT"
                secrets[variable] = {"vault_id": vault_id}
                self.report.note(
                    (*where, "environment_variables_keyvault_secret_id"),
                    "which variables it holds is known when a task starts only: the task gets it "
                    f"whole, as {variable}, and not each as a variable of its own; say where it is "
                    f"by tarmac run --secret {quoted(vault_id)}=file:PATH",
                )
        for name in env:
            if not _VARIABLE.fullmatch(name):
                self.report.wrong(path, f"{name!r} is no name of a variable")
        return env, secrets

    def _inputs(
        self, task: Mapping[str, Any], path: Path
    ) -> tuple[list[dict[str, Any]], list[Transfer]]:
        inputs: list[dict[str, Any]] = []
        transfers: list[Transfer] = []
        for owner, where in ((self.job, self.path), (task, path)):
            own_inputs, others = read_inputs(
                owner.get("input_data"), (*where, "input_data"), self.report, self.accounts
            )
            inputs += own_inputs
            transfers += others
        files = task.get("resource_files")
        inputs += read_resource_files(files, (*path, "resource_files"), self.report)
        return inputs, transfers

    def _limits(self, task: Mapping[str, Any], path: Path, fields: dict[str, Any]) -> None:
        retries, where = self._either(task, path, "max_task_retries")
        if retries is not None:
            if retries < -1:
                self.report.wrong(where, f"{retries}: expected at least 0, or -1 for no limit")
            elif retries == -1 or retries > MAX_RETRIES:
                self.report.note(where, f"{retries}: at most {MAX_RETRIES:,} times here")
                retries = MAX_RETRIES
            if retries > 0:
                fields["retries"] = {"count": retries, "backoff": 0}
        limit, where = self._either(task, path, "max_wall_time")
        if limit is not None:
            seconds = parse_timedelta(limit)
            if not seconds:
                self.report.wrong(where, f"{limit!r}: expected [d.]HH:mm:ss above 0, as 1.12:00:00")
            else:
                fields["timeout"] = seconds
                if where[: len(path)] != path:
                    self.report.note(where, "is for each task here, not for the job as a whole")

    def _uses_node_directory(
        self, task: Mapping[str, Any], path: Path, fields: Mapping[str, Any]
    ) -> bool:
        """Return whether a task uses the directory that a node's tasks share in Azure Batch."""
        texts = [str(task.get("command")), str(task.get("entrypoint")), *fields["env"].values()]
        if any("AZ_BATCH_NODE_SHARED_DIR" in text for text in texts):
            self.report.note(
                path,
                "AZ_BATCH_NODE_SHARED_DIR is a directory of each task's own: what one writes "
                "there, others do not see",
            )
            return True
        targets = [mount["target"] for mount in fields["environment"].get("mounts", ())]
        places = [*targets, *(f"{WORK}/{entry.get('to')}" for entry in fields.get("inputs", ()))]
        return any(place.startswith(f"{WORK}/{NODE_SHARED}") for place in places)

    def _exit_option(
        self, task: Mapping[str, Any], path: Path, name: str
    ) -> tuple[str | None, Path]:
        conditions, where = self._either(task, path, "exit_conditions")
        options = ((conditions or {}).get("default") or {}).get("exit_options") or {}
        return options.get(name), (*where, "default", "exit_options", name)

    def _notes(self, task: Mapping[str, Any], path: Path) -> None:
        action, where = self._exit_option(task, path, "job_action")
        if action in ("disable", "terminate"):
            self.report.note(
                where,
                f"{action} is without effect here, and kept: tasks that do not need a failed one "
                "go on",
            )
        removes, where = self._either(task, path, "remove_container_after_exit")
        if removes is False:
            self.report.note(
                where, "false is without effect here, and kept: containers are removed"
            )
        texts = [((*path, name), task.get(name)) for name in ("command", "entrypoint")]
        for owner, place in ((self.job, self.path), (task, path)):
            values = owner.get("environment_variables") or {}
            texts += [((*place, "environment_variables", name), values[name]) for name in values]
        for place, text in texts:
            for name in _AZURE_VARIABLE.findall(str(text or "")):
                if name not in _KNOWN_HERE:
                    self.report.note(place, f"{name} is not set here")


def parse_timedelta(text: str) -> float | None:
    """Return the seconds of ``[d.]HH:mm:ss``, or None for another form.

    Source: convert_string_to_timedelta in convoy/util.py.
    """
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(days * 86400 + hours * 3600 + minutes * 60 + seconds)
