"""The environment of an instance, with the variables that HKube's task executor injects.

Source: kube-HPC/hkube at 261d3d06, core/task-executor/lib/{templates/worker.js,jobs/jobCreator.js}.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.documents import parse_bytes
from tarmac.jobs import Container, Mount, Task

if TYPE_CHECKING:
    from tarmac.formats import Algorithm

_MI = 2**20

# Mount points of an instance's folders in a container: those of HKube's pods, and Tarmac's own.
_METRICS = "/var/metrics"
_STORAGE = "/var/tmp/fs/storage"  # noqa: S108 - the Python wrapper's own default, in a container
_EXCHANGE = "/var/tarmac"

# Default cache of the Python wrapper in MB, for a definition without a memory limit.
_CACHE_MB = 400
# HKube reserves this share of an algorithm's memory for the wrapper's cache.
_RESERVED = 0.2
# HKube's share of an algorithm's memory for the Java heap.
_JAVA_HEAP = 0.8


@dataclasses.dataclass(frozen=True)
class Folders:
    """The folders of an instance.

    Attributes:
        path: Directory of the instance, with ``stdout``, ``stderr``, ``work/`` and the rest.
    """

    path: Path

    @property
    def metrics(self) -> Path:
        """The directory for the algorithm's TensorBoard files."""
        return self.path / "metrics"

    @property
    def storage(self) -> Path:
        """The directory in which the algorithm's wrapper stores results."""
        return self.path / "storage"

    @property
    def input(self) -> Path:
        """The input file of a plain algorithm."""
        return self.path / "exchange" / "input.json"

    @property
    def result(self) -> Path:
        """The result file of a plain algorithm."""
        return self.path / "exchange" / "result.json"

    def make(self) -> None:
        """Create the folders."""
        for folder in (self.metrics, self.storage, self.input.parent):
            folder.mkdir(parents=True, exist_ok=True)


def hosted_task(
    algorithm: Algorithm, template: Task, number: int, folders: Folders, address: tuple[str, int]
) -> Task:
    """Return the task of an instance that speaks HKube's protocol.

    Args:
        algorithm: Algorithm that the instance runs.
        template: Task planned from the algorithm's job.
        number: Number of the instance in the run, from 0.
        folders: Directories of this instance.
        address: Host and port on which the instance's worker listens.
    """
    host, port = address
    storage = _STORAGE if _in_container(template) else str(folders.storage)
    injected = {
        "ALGORITHM_TYPE": algorithm.name,
        "POD_IP": host,
        "DEFAULT_STORAGE": "fs",
        "STORAGE_ENCODING": "msgpack",
        "BASE_FS_ADAPTER_DIRECTORY": storage,
        "STORAGE_MAX_CACHE_SIZE": str(_CACHE_MB),
        # Off: instances would fetch results from each other; here the host has all results.
        "DISCOVERY_ENABLE": "false",
        "DISCOVERY_ENCODING": "msgpack",
        "DISCOVERY_PORT": "9020",
        "DISCOVERY_TIMEOUT": "10000",
        "DISCOVERY_SERVING_REPORT_INTERVAL": "5000",
        "WORKER_ALGORITHM_ENCODING": "bson",
        "CLUSTER_NAME": "local",
        **_variables_of_definition(algorithm, template),
        **_metrics(template, folders),
    }
    # No URL: with a URL, the Node.js wrapper stores nothing and starts no other algorithm.
    socket = {
        "WORKER_SOCKET_PROTOCOL": "ws",
        "WORKER_SOCKET_HOST": host,
        "WORKER_SOCKET_PORT": str(port),
    }
    task = _own(template, algorithm, number, {**injected, **template.env, **socket})
    mounts = (_mount(folders.metrics, _METRICS), _mount(folders.storage, _STORAGE))
    return _mounted(task, mounts)


def plain_task(algorithm: Algorithm, template: Task, number: int, folders: Folders) -> Task:
    """Return the task of an instance that reads its input from a file."""
    inside = _in_container(template)
    files = {
        "TARMAC_INPUT": f"{_EXCHANGE}/{folders.input.name}" if inside else str(folders.input),
        "TARMAC_RESULT": f"{_EXCHANGE}/{folders.result.name}" if inside else str(folders.result),
    }
    variables = {
        "ALGORITHM_TYPE": algorithm.name,
        **_metrics(template, folders),
        **template.env,
        **files,
    }
    task = _own(template, algorithm, number, variables)
    mounts = (_mount(folders.metrics, _METRICS), _mount(folders.input.parent, _EXCHANGE))
    return _mounted(task, mounts)


def _in_container(task: Task) -> bool:
    return isinstance(task.environment, Container)


def _metrics(template: Task, folders: Folders) -> dict[str, str]:
    return {"ALGO_METRICS_DIR": _METRICS if _in_container(template) else str(folders.metrics)}


def _variables_of_definition(algorithm: Algorithm, template: Task) -> dict[str, str]:
    definition = algorithm.definition
    variables = {}
    entry_point = definition.get("entryPoint") or (definition.get("code") or {}).get("entryPoint")
    if entry_point:
        variables["ALGORITHM_ENTRY_POINT"] = str(entry_point)
    memory = template.resources.memory
    variables["DISCOVERY_MAX_CACHE_SIZE"] = str(_cache_mb(definition, memory))
    if algorithm.env in ("java", "jvm") and memory is not None:
        variables["JAVA_DERIVED_MEMORY"] = str(round(_JAVA_HEAP * memory / _MI))
    if algorithm.options.get("opengl"):
        variables |= {"DISPLAY": ":0", "NVIDIA_DRIVER_CAPABILITIES": "all"}
    return variables


def _cache_mb(definition: Mapping[str, Any], memory: int | None) -> int:
    if definition.get("reservedMemory"):
        return parse_bytes(definition["reservedMemory"]) // _MI
    return _CACHE_MB if memory is None else math.ceil(_RESERVED * memory / _MI)


def _own(template: Task, algorithm: Algorithm, number: int, env: Mapping[str, str]) -> Task:
    return dataclasses.replace(template, name=f"{algorithm.name}-{number}", index=number, env=env)


def _mount(source: Path, target: str) -> Mount:
    return Mount(source=str(source.resolve()), target=target)


def _mounted(task: Task, mounts: tuple[Mount, ...]) -> Task:
    if not isinstance(task.environment, Container):
        return task
    environment = task.environment.model_copy(
        update={"mounts": (*task.environment.mounts, *mounts)}
    )
    return dataclasses.replace(task, environment=environment)
