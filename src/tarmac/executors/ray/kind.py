"""The entry for Ray in the table of executors."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from tarmac.errors import RequestError
from tarmac.executors.elements import refuse_unknown_containers
from tarmac.executors.interface import Executor, ExecutorKind, Site
from tarmac.executors.queueing import ChunkFiles, Patience, Preparation, QueueingExecutor
from tarmac.executors.ray.connection import Connection, connect
from tarmac.executors.ray.demand import Demand, demand_of, why_never, with_ray_type
from tarmac.executors.ray.engine import Probe, RayEngine
from tarmac.executors.ray.options import RayOptions, options_of
from tarmac.executors.ray.runners import RayRunners
from tarmac.executors.ray.units import Units
from tarmac.files import storage_errors, write_text
from tarmac.tasks.plan import Task

# Ray's workers end right after their agents. A lost node is known within half a minute.
_SETTLES_WITHIN_S = 30.0

# A submission costs no command of an engine, only three files.
_GATHER_S = 0.1

# The units of this process's driver, by the id of its connection.
_units: dict[int, Units] = {}


class RayExecutor(QueueingExecutor):
    """Runs the attempts of a run in a Ray cluster.

    Args:
        site: Directory, tasks and settings of the run.
        patience: Seconds to wait for records and for Ray. Default: those of `Patience`.

    Raises:
        RequestError: No cluster accepts this process.
    """

    def __init__(self, site: Site, *, patience: Patience | None = None) -> None:
        connection = connect(_address(site.tasks))
        prepared = Preparation(site, "ray")
        probe = Probe(site.run / "chunks" / "ray-probe", secrets.token_hex(8))
        with storage_errors(site.run):
            probe.path.parent.mkdir(exist_ok=True)
        write_text(probe.path, probe.nonce)
        self._units = units = _units_of(connection)
        engine = RayEngine(
            connection,
            units,
            files=ChunkFiles(site.run),
            agent=prepared.agent,
            probe=probe,
            spool=prepared.spool,
        )
        super().__init__(
            engine,
            site,
            prepared.element,
            spool=prepared.spool,
            patience=patience,
            gather_s=_GATHER_S,
        )
        units.heard = self.look_now

    def _clear(self) -> None:
        # Ends are recorded before Ray has freed the attempts' resources.
        self._units.settle(_SETTLES_WITHIN_S)
        super()._clear()


def _units_of(connection: Connection) -> Units:
    if id(connection) not in _units:
        _units[id(connection)] = Units(connection)
    return _units[id(connection)]


def _address(tasks: Sequence[Task]) -> str:
    """Return the cluster address that tasks name.

    Raises:
        RequestError: The tasks name several addresses.
    """
    named = {options_of(task).address for task in {task.spec: task for task in tasks}.values()}
    if len(named) > 1:
        raise RequestError(
            f"options.ray.address is {' and '.join(sorted(map(repr, named)))}: a run can use "
            "only one cluster"
        )
    return named.pop() if named else ""


def _refuse(tasks: Sequence[Task], fake_gpus: int) -> None:  # noqa: ARG001 - Ray gives GPUs, pretended or not
    demands = _demands(tasks)
    _refuse_too_large(demands, connect(_address(tasks)))


def _refuse_afar(tasks: Sequence[Task], fake_gpus: int) -> None:  # noqa: ARG001 - as above
    """Refuse tasks as far as possible here: a runner over HTTP needs no Ray on this machine."""
    demands, address = _demands(tasks), _address(tasks)
    try:
        connection = connect(address)
    except RequestError:
        # The runner itself connects to the cluster, and reports for each task why it waits.
        return
    _refuse_too_large(demands, connection)


def _demands(tasks: Sequence[Task]) -> Sequence[tuple[Demand, Task]]:
    """Return each distinct demand, with the first task that has it."""
    refuse_unknown_containers(tasks, engine="ray")
    demands: dict[str, tuple[Demand, Task]] = {}
    for task in tasks:
        demand = demand_of(task)
        demands.setdefault(json.dumps(dataclasses.asdict(demand)), (demand, task))
    return [*demands.values()]


def _refuse_too_large(demands: Sequence[tuple[Demand, Task]], connection: Connection) -> None:
    for demand, task in demands:
        if options_of(task).autoscaling:
            continue
        nodes = connection.nodes()
        words = why_never(with_ray_type(demand, nodes), nodes)
        if words:
            raise RequestError(
                f"task {task.name!r}: no node of the Ray cluster at {connection.address} can run "
                f"it: {words}",
                hint="If the cluster scales automatically: --set options.ray.autoscaling=true",
            )


def _preview(site: Site) -> Iterator[str]:
    requests: dict[str, list[str]] = {}
    for task in site.tasks:
        demand = demand_of(task)
        request: dict[str, Any] = {
            "resources": demand.amounts(),
            "options": demand.to_options(),
        }
        if demand.nodes > 1:
            request["placement_group"] = {"strategy": "STRICT_SPREAD", "bundles": demand.nodes}
        requests.setdefault(json.dumps(request, sort_keys=True), []).append(task.name)
    for text, names in requests.items():
        request = {"tasks": len(names), "first": names[0], "last": names[-1], **json.loads(text)}
        yield json.dumps(request, indent=2) + "\n"


def _open(site: Site) -> Executor:
    return RayExecutor(site)


RAY = ExecutorKind(
    "ray",
    "a Ray cluster",
    refuse=_refuse,
    open=_open,
    options=RayOptions,
    preview=_preview,
    runners=RayRunners(),
    refuse_afar=_refuse_afar,
)
