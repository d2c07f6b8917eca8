"""Jobs as Batch Shipyard's configurations."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError
from tarmac.formats.original import is_changed, original_of
from tarmac.jobs import plan_tasks

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tarmac.jobs import Job, Task

__all__ = ["write_shipyard"]

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UID = re.compile(r"(\d+):(\d+)")
_CONDITIONS = {
    "always": "taskcompletion",
    "failure": "taskfailure",
    "success": "tasksuccess",
}
_ALIAS = "mystorageaccount"


def write_shipyard(
    jobs: Sequence[Job], directory: Path | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return the configuration of jobs; ones that were read give back what they were read from.

    Args:
        jobs: Of tasks in containers.
        directory: What patterns of sweeps over files start from; by default the current one.

    Returns:
        The sections of a configuration, of which each goes into a file of its own, and notes on
        what is written otherwise.

    Raises:
        RequestError: A job has what a configuration cannot say; all of it is said.
    """
    found: dict[str, Any] = {}
    notes: list[str] = []
    specifications = []
    for job in jobs:
        original = _original_of(job)
        if original is not None:
            for key, part in original.items():
                if key != "job_specifications" and found.setdefault(key, part) != part:
                    notes.append(
                        f"{job.name}: another job's {key} is written, and its own left out"
                    )
            if not is_changed(job):
                specifications += original["job_specifications"]
                continue
        resources = found.get("global_resources") or {}
        taken = ((resources.get("volumes") or {}).get("data_volumes") or {}).keys()
        writer = _Writer(job, directory or Path(), taken)
        specifications.append(writer.write())
        if original is not None:
            notes.append(_lost(job, original, specifications[-1]))
        notes += writer.notes
        if writer.volumes:
            found["global_resources"] = _with_volumes(resources, writer.volumes)
    return {**found, "job_specifications": specifications}, notes


def _with_volumes(resources: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    volumes = resources.get("volumes") or {}
    all_volumes = {**(volumes.get("data_volumes") or {}), **new}
    return {**resources, "volumes": {**volumes, "data_volumes": all_volumes}}


def _original_of(job: Job) -> dict[str, Any] | None:
    """Return the configuration that a job was read from."""
    original = original_of(job, "shipyard")
    is_one = original is not None and isinstance(original.get("job_specifications"), list)
    return original if is_one else None


def _lost(job: Job, original: Mapping[str, Any], written: Mapping[str, Any]) -> str:
    """Say what is not written of what a job was read from, which it no longer says."""
    (before,) = original["job_specifications"][:1] or ({},)
    names = [name for name in before if name not in written]
    old, new = ({k for task in part.get("tasks") or () for k in task} for part in (before, written))
    names += [f"tasks[].{name}" for name in sorted(old - new)]
    left_out = f"; without {', '.join(names)}" if names else ""
    return (
        f"{job.name}: was changed after it was converted, and is written anew from what it says "
        f"now{left_out}"
    )


@dataclasses.dataclass
class _Said:
    """What is said once of many tasks."""

    lines: dict[str, None] = dataclasses.field(default_factory=dict)

    def add(self, line: str) -> None:
        self.lines[line] = None


class _Writer:
    """Writes one job."""

    def __init__(self, job: Job, directory: Path, taken: Collection[str] = ()) -> None:
        self._job = job
        self._taken = taken
        self._tasks = [*plan_tasks(job, directory)]
        self._wrong = _Said()
        self._notes = _Said()
        self.volumes: dict[str, Any] = {}

    @property
    def notes(self) -> list[str]:
        return [*self._notes.lines]

    def write(self) -> dict[str, Any]:
        job = self._job
        self._check_id(job.name, "the job")
        found: dict[str, Any] = {"id": job.name}
        users = {getattr(task.environment, "user", None) for task in self._tasks}
        match = _UID.fullmatch(next(iter(users)) or "") if len(users) == 1 else None
        if match is not None:
            uid, gid = int(match[1]), int(match[2])
            found["user_identity"] = {"specific_user": {"uid": uid, "gid": gid}}
        elif users != {None}:
            self._wrong.add("its tasks' users are not one UID:GID for all")
        priorities = {task.priority for task in self._tasks}
        if len(priorities) > 1:
            self._notes.add(f"{job.name}: priorities are of jobs, not of tasks, and are left out")
        elif priorities != {0}:
            found["priority"] = min(max(min(priorities), -1000), 1000)
        if job.concurrency is not None:
            self._notes.add(f"{job.name}: concurrency is a pool's: vm_count, max_tasks_per_node")
        ids = self._ids()
        found["tasks"] = [self._task(task, ids) for task in self._tasks if not task.is_last]
        last = next((task for task in self._tasks if task.is_last), None)
        if last is not None:
            found["merge_task"] = self._merge_task(last, ids)
            self._notes.add(
                f"{job.name}: after_all is a merge task, which failures keep from running"
            )
        if self._wrong.lines:
            first, *rest = (f"{job.name}: {line}" for line in self._wrong.lines)
            raise RequestError(first, hint="\n".join(rest) or None)
        return found

    def _check_id(self, name: str, what: str) -> None:
        if not _ID.fullmatch(name):
            self._wrong.add(
                f"{what} is called {name!r}; an id has letters, digits, '-' and '_', at most 64"
            )

    def _ids(self) -> Mapping[int, str]:
        """Return a task's id by its number; those of a sweep get numbers."""
        found: dict[int, str] = {}
        used: set[str] = set()
        counts: dict[str, int] = {}
        for task in self._tasks:
            name = task.name
            if name != task.spec:
                number = counts.get(task.spec, 0)
                counts[task.spec] = number + 1
                name = f"{task.spec}-{number}"
            while name in used:
                name += "-x"
            self._check_id(name, f"task {task.name!r}")
            used.add(name)
            found[task.index] = name
        return found

    def _task(self, task: Task, ids: Mapping[int, str]) -> dict[str, Any]:
        found: dict[str, Any] = {"id": ids[task.index]}
        options = self._container(task, found)
        self._resources(task, found, options)
        if options:
            found["additional_docker_run_options"] = options
        # Azure Batch sets its own, to what they are on a node.
        env = {name: text for name, text in task.env.items() if not name.startswith("AZ_BATCH_")}
        if env:
            found["environment_variables"] = env
        for variable in task.secrets:
            self._wrong.add(
                f"the secret {variable}: Batch Shipyard knows Key Vault secrets of many variables "
                "only"
            )
        self._inputs(task, found)
        self._outputs(task, found)
        self._limits(task, found)
        specs = {*task.needs}
        needs = [ids[other.index] for other in self._tasks if other.spec in specs]
        if needs:
            found["depends_on"] = needs
        return found

    def _merge_task(self, task: Task, ids: Mapping[int, str]) -> dict[str, Any]:
        """Return a task without what the schema of a merge task has not."""
        found = self._task(task, ids)
        if found.pop("depends_on", None):
            self._notes.add(f"{self._job.name}: a merge task needs all others by itself")
        found["gpu"] = found.pop("gpus") != "disable"
        if task.resources.gpus > 1:
            self._notes.add(f"{self._job.name}: a merge task gets all GPUs of a machine, or none")
        for part in found.get("output_data", {}).get("azure_storage", ()):
            if part.pop("condition") != "taskcompletion":
                self._notes.add(f"{self._job.name}: outputs of a merge task are always kept")
        return found

    def _container(self, task: Task, found: dict[str, Any]) -> list[str]:
        container = task.environment
        if container.kind != "container":
            self._wrong.add(
                f"Batch Shipyard runs containers only: give task {task.name!r} an image, "
                "environment: {image: NAME}"
            )
            return []
        found["docker_image"] = container.image
        command = [*task.command]
        if container.entrypoint:
            found["entrypoint"] = container.entrypoint[0]
            command = [*container.entrypoint[1:], *command]
        if command:
            # A shell of the node acts on the line, and takes quoted words as they are.
            found["command"] = shlex.join(command)
        options = []
        if container.network is not None:
            options.append(f"--network={container.network}")
        if container.workdir == "":
            found["default_working_dir"] = "container"
        elif container.workdir is not None:
            options.append(f"--workdir={container.workdir}")
        if container.ipc is not None:
            options.append(f"--ipc={container.ipc}")
        options += [f"--ulimit={limit}" for limit in container.ulimits]
        names = [self._volume(mount.model_dump()) for mount in container.mounts]
        if names:
            found["data_volumes"] = names
        if container.login is not None:
            self._notes.add(
                f"{self._job.name}: the login of {container.image} belongs under docker_registry "
                "of credentials.yaml"
            )
        if container.pull != "missing" or container.engine is not None:
            self._notes.add(f"{self._job.name}: pull and engine are left out")
        return options

    def _volume(self, mount: Mapping[str, Any]) -> str:
        volume = {"host_path": mount["source"], "container_path": mount["target"]}
        if mount["read_only"]:
            volume["bind_options"] = "ro"
        for name, known in self.volumes.items():
            if known == volume:
                return name
        plain = re.sub(r"[^A-Za-z0-9]", "", self._job.name) or "volume"
        numbers = itertools.count(len(self.volumes))
        name = next(n for number in numbers if (n := f"{plain}{number}") not in self._taken)
        self.volumes[name] = volume
        return name

    def _resources(self, task: Task, found: dict[str, Any], options: list[str]) -> None:
        resources = task.resources
        if not resources.shares_cpus:
            options.append(f"--cpus={resources.cpus:g}")
        if resources.memory is not None:
            options.append(f"--memory={_size(resources.memory)}")
        if resources.shm is not None:
            found["shm_size"] = _size(resources.shm)
        if resources.gpus != int(resources.gpus):
            self._notes.add(
                f"{self._job.name}: {resources.gpus:g} of a GPU is a whole one: only Tarmac shares"
            )
        found["gpus"] = math.ceil(resources.gpus) or "disable"
        if resources.gpu_memory is not None:
            self._notes.add(f"{self._job.name}: gpu_memory is the pool's vm_size")
        if resources.gpu_type:
            self._notes.add(
                f"{self._job.name}: GPUs {resources.gpu_type} are had by the pool's vm_size"
            )

    def _inputs(self, task: Task, found: dict[str, Any]) -> None:
        for given in task.inputs:
            if given.sha256 or given.unpack:
                self._wrong.add(f"input {given.source}: sha256 and unpack cannot be said")
            scheme = _scheme(given.source)
            if scheme in ("http", "https"):
                path = re.split(r"[?#]", given.source, maxsplit=1)[0]
                file = {
                    "blob_source": given.source,
                    "file_path": given.to or path.rsplit("/", maxsplit=1)[-1],
                }
                if given.mode is not None:
                    file["file_mode"] = given.mode
                found.setdefault("resource_files", []).append(file)
            elif scheme == "az":
                found.setdefault("input_data", {}).setdefault("azure_storage", []).append(
                    self._download(given)
                )
            else:
                self._wrong.add(
                    f"input {given.source}: nodes reach URLs and az:// only; upload it there"
                )

    def _download(self, given: Any) -> dict[str, Any]:
        remote = given.source.removeprefix("az://").rstrip("/")
        _, _, prefix = remote.partition("/")
        found: dict[str, Any] = {"storage_account_settings": _ALIAS, "remote_path": remote}
        self._note_alias()
        above = [part for part in prefix.split("/") if part]
        target = given.to or (above[-1] if above else ".")
        # blobxfer keeps the whole name of a blob, but for what it is told to strip.
        if target != prefix:
            found["local_path"] = f"$AZ_BATCH_TASK_WORKING_DIR/{target}".removesuffix("/.")
            found["blobxfer_extra_options"] = f"--strip-components {len(above)}"
        for name in ("include", "exclude"):
            patterns = getattr(given, name)
            if patterns:
                found[name] = ["/".join([*above, pattern]) for pattern in patterns]
        return found

    def _outputs(self, task: Task, found: dict[str, Any]) -> None:
        for output in task.outputs:
            if _scheme(output.to) != "az":
                self._wrong.add(
                    f"output {output.path}: files are kept on az:// only, not {output.to}"
                )
                continue
            self._note_alias()
            part: dict[str, Any] = {
                "storage_account_settings": _ALIAS,
                "remote_path": output.to.removeprefix("az://").rstrip("/"),
                "local_path": "$AZ_BATCH_TASK_WORKING_DIR",
                "condition": _CONDITIONS[output.when],
            }
            above = ""
            if output.root is not None:
                part["local_path"] += f"/{output.root}"
                above = f"{output.root}/"
            path = output.path.removeprefix(above)
            if output.include:
                part["include"] = [pattern.removeprefix(above) for pattern in output.include]
            elif path not in ("*", output.root):
                part["include"] = [path.removeprefix("**/")]
            if output.exclude:
                part["exclude"] = [pattern.removeprefix(above) for pattern in output.exclude]
            data = found.setdefault("output_data", {})
            data.setdefault("azure_storage", []).append(part)

    def _note_alias(self) -> None:
        self._notes.add(
            f"{self._job.name}: {_ALIAS} is to be described under storage of credentials.yaml"
        )

    def _limits(self, task: Task, found: dict[str, Any]) -> None:
        if task.timeout_s is not None:
            seconds = max(1, math.ceil(task.timeout_s))
            days, seconds = divmod(seconds, 86400)
            clock = f"{seconds // 3600:02}:{seconds % 3600 // 60:02}:{seconds % 60:02}"
            found["max_wall_time"] = f"{days}.{clock}" if days else clock
        if task.continues:
            options = {"dependency_action": "satisfy"}
            found["exit_conditions"] = {"default": {"exit_options": options}}
        if task.retries.count:
            found["max_task_retries"] = task.retries.count
            if task.retries.exit_codes or task.retries.backoff:
                self._notes.add(
                    f"{self._job.name}: Azure Batch tries again at once, and on any exit code"
                )


def _scheme(place: str) -> str:
    return place.partition("://")[0].lower() if "://" in place else ""


def _size(amount: int) -> str:
    """Return bytes as Docker takes them, in the largest unit that is whole."""
    for unit, letter in ((2**30, "g"), (2**20, "m"), (2**10, "k")):
        if amount % unit == 0:
            return f"{amount // unit}{letter}"
    return f"{amount}b"
