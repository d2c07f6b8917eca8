"""Ray as an engine: units are tasks of this process's driver, and end with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.errors import TarmacError
from tarmac.executors.queueing import (
    Accepted,
    ChunkFiles,
    ChunkRecord,
    ClusterId,
    Ending,
    Shown,
    Silent,
    Terms,
    UnitName,
)
from tarmac.executors.ray.connection import Connection
from tarmac.executors.ray.demand import Demand, demand_of, why_waiting, with_ray_type
from tarmac.executors.ray.options import options_of
from tarmac.executors.ray.says import RUNNER_GONE
from tarmac.executors.ray.units import Unit, Units
from tarmac.executors.spool import Spool
from tarmac.node import AttemptSpec, Chunk, attempt_file
from tarmac.tasks.plan import Task

_MAX_UNITS = 1000

# Attempts to reach a head that does not answer; each takes 5 s at most.
_LOOKS_FOR_HEAD = 3

# After the loss of the head, agents have their programs' grace period to end.
_ENDS_WITHIN_S = 15.0


@dataclasses.dataclass(frozen=True)
class Probe:
    """A file by which a node finds out whether it sees the run's directory.

    Attributes:
        path: File in the run's directory, which the runner writes.
        nonce: Random hex text in the file.
    """

    path: Path
    nonce: str


class RayEngine:
    """A Ray cluster as the engine for the chunks of one run.

    Args:
        connection: Connection of this process to the cluster.
        units: Units that this process has given to Ray.
        files: Chunk files of the run.
        agent: The agent's file, in the run's directory.
        probe: Probe file in the run's directory.
        spool: Spool with the run's secrets.
    """

    title = "Ray"
    # Units end with their driver, so a run may continue on another cluster or a head at a new
    # address.
    keeps_units = False
    most_units = _MAX_UNITS

    def __init__(
        self,
        connection: Connection,
        units: Units,
        *,
        files: ChunkFiles,
        agent: Path,
        probe: Probe,
        spool: Spool,
    ) -> None:
        self._connection = connection
        self._units = units
        self._files = files
        self._agent = agent
        self._agent_bytes = agent.read_bytes()
        self._probe = probe
        self._spool = spool
        self._shapes: dict[tuple[str, bool], Mapping[str, Any]] = {}
        self._silences = 0

    def cluster(self) -> ClusterId:
        """Return the cluster's identity, its head's address; see `Engine`."""
        address = self._connection.address
        return ClusterId(address, way=f"RAY_ADDRESS={address}")

    def shape(self, task: Task) -> Mapping[str, Any]:
        """Return the needs of a task's units; see `Engine`."""
        # Tasks of one spec differ only in their parameters.
        origin = task.spec, task.is_last
        if origin not in self._shapes:
            options = options_of(task)
            pending = options.max_pending if options.autoscaling else None
            demand = dataclasses.asdict(with_ray_type(demand_of(task), self._connection.nodes()))
            self._shapes[origin] = {"demand": demand, "max_pending": pending}
        return self._shapes[origin]

    def terms(self, task: Task) -> Terms:
        """Return the demands of a task's options; see `Engine`."""
        return Terms(pending_limit_s=options_of(task).pending_limit)

    def submit(
        self, chunk: ChunkRecord, *, most_at_once: int | None, excluded: Collection[str]
    ) -> Accepted:
        """Accept a chunk; units that do not fit wait in this process; see `Engine`."""
        spec = Chunk(self._files.spec(chunk))
        nodes = self._ids(excluded)
        units = [
            self._unit(chunk, number, spec.element(number), nodes)
            for number in range(chunk.num_units)
        ]
        self._units.add(units, most_at_once)
        return Accepted(chunk.name)

    def find(self, chunk: ChunkRecord) -> Accepted | None:
        """Return a chunk that this process's driver has; None otherwise; see `Engine`."""
        return Accepted(chunk.name) if (chunk.name, 0) in self._units else None

    def look(self, chunks: Sequence[ChunkRecord]) -> Mapping[UnitName, Shown] | Silent:
        """Return the units of chunks, including ended ones; see `Engine`.

        Raises:
            TarmacError: The cluster's head does not answer.
        """
        self._look_for_head()
        self._units.forget(self._units.known_chunks() - {chunk.name for chunk in chunks})
        shown = {}
        for chunk in chunks:
            units = {unit.number: unit for unit in self._units.of(chunk.name)}
            words = ""
            for number in range(chunk.num_units):
                name = UnitName(chunk.number, number)
                unit = units.get(number)
                if unit is None:
                    shown[name] = Shown("over", chunk.name, ending=RUNNER_GONE)
                elif unit.state == "over":
                    host = unit.ending.host if unit.ending else ""
                    shown[name] = Shown("over", chunk.name, host=host, ending=unit.ending)
                elif unit.state == "sent" and self._has_begun(unit):
                    shown[name] = Shown("running", chunk.name)
                else:
                    words = words or self._why_waiting(chunk)
                    shown[name] = Shown("waiting", chunk.name, words)
        return shown

    def endings(self, units: Iterable[tuple[ChunkRecord, int]]) -> Mapping[UnitName, Ending]:
        """Return the endings of units, which `look` has shown already."""
        return {
            UnitName(chunk.number, unit.number): unit.ending
            for chunk, number in units
            for unit in self._units.of(chunk.name)
            if unit.number == number and unit.ending is not None
        }

    def final_status(self, chunk: ChunkRecord, unit: int) -> None:  # noqa: ARG002 - Ray begins nothing again
        """Return nothing: Ray puts no unit back into its queue."""
        return

    def cancel(
        self, units: Sequence[tuple[ChunkRecord, int]] = (), chunks: Sequence[ChunkRecord] = ()
    ) -> None:
        """Cancel units, or all units of chunks; see `Engine`."""
        wanted = [unit for chunk in chunks for unit in self._units.of(chunk.name)]
        for chunk, number in units:
            wanted += [unit for unit in self._units.of(chunk.name) if unit.number == number]
        self._units.cancel(wanted)

    def avoid(self, chunk: ChunkRecord, hosts: Collection[str]) -> None:
        """Keep a chunk's unsent units off hosts; see `Engine`."""
        self._units.avoid(chunk.name, self._ids(hosts))

    def throttle(self, chunk: ChunkRecord, most_at_once: int) -> None:
        """Limit how many units of a chunk run at once; see `Engine`."""
        self._units.cap(chunk.name, most_at_once)

    def _unit(
        self, chunk: ChunkRecord, number: int, element: AttemptSpec, excluded: tuple[str, ...]
    ) -> Unit:
        spooled = {
            name: text.rstrip(b"\n")
            for name, path in element.secrets.items()
            if (text := self._spooled(path)) is not None
        }
        left = {name: path for name, path in element.secrets.items() if name not in spooled}
        work = {
            "element": element._replace(secrets=left)._asdict(),
            "secrets": spooled,
            "probe": str(self._probe.path),
            "nonce": self._probe.nonce,
            "agent": str(self._agent),
            "unit": f"{chunk.name}_{number}",
        }
        return Unit(
            chunk.name,
            number,
            element.name,
            Demand(**chunk.shape["demand"]),
            work,
            self._agent_bytes,
            max_pending=chunk.shape["max_pending"],
            excluded=excluded,
        )

    def _spooled(self, path: str) -> bytes | None:
        """Return a secret from the runner's spool, which nodes may not see; None if elsewhere."""
        directory, _, name = path.rpartition("/")
        return self._spool.read(name) if directory == str(self._spool.directory) else None

    def _has_begun(self, unit: Unit) -> bool:
        element = unit.work.get("element")
        if element is None:
            return True
        return attempt_file(Path(element["directory"]), element["number"]).exists()

    def _why_waiting(self, chunk: ChunkRecord) -> str:
        return why_waiting(
            Demand(**chunk.shape["demand"]),
            self._connection.nodes(),
            self._connection.free(),
            autoscaling=chunk.shape["max_pending"] is not None,
        )

    def _ids(self, hosts: Collection[str]) -> tuple[str, ...]:
        if not hosts:
            return ()
        return tuple(node.id for node in self._connection.nodes() if node.name in hosts)

    def _look_for_head(self) -> None:
        for _ in range(_LOOKS_FOR_HEAD):
            if self._connection.answers():
                return
        self._units.cancel_all(_ENDS_WITHIN_S)
        address = self._connection.address
        raise TarmacError(
            f"the head of the Ray cluster at {address} is gone, and its tasks with it",
            hint="Resume it when the head is back: tarmac run --resume latest",
        )
