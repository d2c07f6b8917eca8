"""Passes attempts to Ray: Ray has a few more than fit, and the others wait in this process.

Ray's queue is kept short, so that the run's order holds and cancellations leave nothing behind.
Ray reports results through callbacks, so nothing polls.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from tarmac.executors.queueing import Ending
from tarmac.executors.ray import mirror, worker
from tarmac.executors.ray.connection import Connection
from tarmac.executors.ray.demand import Demand, num_slots
from tarmac.executors.ray.groups import Group
from tarmac.executors.ray.says import ending_of, returned_ending

# Most units with Ray beyond twice what fits, for units that end while others are being sent.
_MORE = 16


@dataclasses.dataclass(eq=False)
class Unit:
    """An attempt for Ray.

    Attributes:
        chunk: Name of the unit's chunk.
        number: Number of the unit in its chunk, from 0.
        task: Name of the task, which Ray shows.
        demand: Resources and labels of each node.
        work: Data for the worker; see `worker.perform`.
        agent: Content of the agent's file.
        max_pending: Most units that wait in Ray's queue; None for as many as fit.
        state: ``here`` in this process, ``sent`` to Ray, or ``over``.
        ending: Ending of the unit by Ray; None before.
        is_cancelled: Whether its end was requested.
        has_mirror: Whether it needs a mirror, as a node does not see the run's directory.
        excluded: Ids of nodes that the unit must avoid.
    """

    chunk: str
    number: int
    task: str
    demand: Demand
    work: dict[str, Any]
    agent: bytes
    max_pending: int | None = None
    state: Literal["here", "sent", "over"] = "here"
    ending: Ending | None = None
    is_cancelled: bool = False
    has_mirror: bool = False
    excluded: tuple[str, ...] = ()
    ref: Any = None
    group: Group | None = None

    @property
    def place(self) -> str:
        """The unit's name in messages: its chunk's name and its number there."""
        return f"{self.chunk}_{self.number}"


class Units:
    """The units of this process's driver.

    Args:
        connection: Connection of this process to the cluster.

    Attributes:
        heard: Function to call, from any thread, when a unit has ended.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ray = connection.ray
        self._lock = threading.RLock()
        self._settled = threading.Condition(self._lock)
        self._units: dict[tuple[str, int], Unit] = {}
        self._waiting: deque[Unit] = deque()
        self._sent: set[Unit] = set()
        self._caps: dict[str, int] = {}
        self._full_once: set[str] = set()
        self._agents: dict[bytes, Any] = {}
        self._mirror: Any = None
        self._said: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        # The callbacks run in Ray's own threads, which must not wait.
        threading.Thread(target=self._listen, name="tarmac-ray", daemon=True).start()
        self.heard: Callable[[], None] = lambda: None
        for module in (worker, mirror):
            self._ray.cloudpickle.register_pickle_by_value(module)
        # A process that used a GPU may keep GPU memory, which its next task would lack.
        self._once = self._ray.remote(max_calls=1)(worker.perform)
        self._often = self._ray.remote(worker.perform)

    def __contains__(self, key: tuple[str, int]) -> bool:
        """Return whether this process's driver has had a unit."""
        return key in self._units

    def of(self, chunk: str) -> list[Unit]:
        """Return the units of a chunk that this process's driver has had."""
        with self._lock:
            return [unit for (name, _), unit in self._units.items() if name == chunk]

    def add(self, units: Iterable[Unit], cap: int | None) -> None:
        """Add units, of which at most `cap` of a chunk are with Ray at once."""
        with self._lock:
            for unit in units:
                self._units[unit.chunk, unit.number] = unit
                self._waiting.append(unit)
                if cap is not None:
                    self._caps[unit.chunk] = cap
        self._send_some()

    def cap(self, chunk: str, most: int) -> None:
        """Limit how many units of a chunk are with Ray at once."""
        with self._lock:
            self._caps[chunk] = most
        self._send_some()

    def avoid(self, chunk: str, nodes: tuple[str, ...]) -> None:
        """Keep a chunk's unsent units off nodes, by the nodes' ids."""
        with self._lock:
            for unit in self.of(chunk):
                if unit.state == "here":
                    unit.excluded = nodes

    def forget(self, chunks: Iterable[str]) -> None:
        """Forget the units of chunks that are over."""
        with self._lock:
            gone = set(chunks)
            self._units = {key: unit for key, unit in self._units.items() if key[0] not in gone}

    def known_chunks(self) -> set[str]:
        """Return the chunks whose units are kept."""
        with self._lock:
            return {chunk for chunk, _ in self._units}

    def cancel(self, units: Iterable[Unit]) -> None:
        """End units: unsent ones at once, the others through Ray."""
        with self._lock:
            for unit in units:
                if unit.state == "over" or unit.is_cancelled:
                    continue
                unit.is_cancelled = True
                if unit.state == "here":
                    self._waiting.remove(unit)
                    self._end(unit, Ending("cancelled", "cancelled before Ray had it"))
                elif unit.ref is not None:
                    self._ray.cancel(unit.ref)
                elif unit.group is not None:
                    unit.group.give_up()
        self.heard()

    def cancel_all(self, patience_s: float) -> None:
        """End all units that are with Ray, and wait some seconds for their end."""
        self.cancel([*self._units.values()])
        self.settle(patience_s)

    def settle(self, patience_s: float) -> None:
        """Wait some seconds until no unit is with Ray and all its resources are free."""
        with self._settled:
            self._settled.wait_for(lambda: not self._sent, patience_s)

    def _listen(self) -> None:
        while True:
            self._said.get()()

    def _send_some(self) -> None:
        with self._lock:
            skipped: list[Unit] = []
            held: dict[str, int] = {}
            for unit in self._sent:
                held[unit.chunk] = held.get(unit.chunk, 0) + 1
            while self._waiting and len(self._sent) < self._window(self._waiting[0]):
                unit = self._waiting.popleft()
                cap = self._caps.get(unit.chunk)
                if cap is not None and held.get(unit.chunk, 0) >= cap:
                    skipped.append(unit)
                    continue
                held[unit.chunk] = held.get(unit.chunk, 0) + 1
                self._send(unit)
            self._waiting.extendleft(reversed(skipped))

    def _window(self, unit: Unit) -> int:
        fits = num_slots(unit.demand, self._connection.nodes())
        return fits + unit.max_pending if unit.max_pending else 2 * fits + _MORE

    def _send(self, unit: Unit) -> None:
        unit.state = "sent"
        self._sent.add(unit)
        if unit.demand.nodes == 1:
            self._call(unit)
            return
        unit.group = Group(self._ray, unit.demand, unit.excluded)
        unit.group.ready.add_done_callback(
            lambda ready: self._said.put(lambda: self._hear_group(unit, ready))
        )

    def _hear_group(self, unit: Unit, ready: Any) -> None:
        with self._lock:
            problem = ready.exception()
            if problem is None and not unit.is_cancelled:
                self._call(unit)
                return
        ending = ending_of(problem) if problem else Ending("cancelled", "its group was cancelled")
        self._finish(unit, ending)

    def _call(self, unit: Unit) -> None:
        options = unit.demand.to_options()
        if unit.excluded:
            nodes = ",".join(unit.excluded)
            options.setdefault("label_selector", {})["ray.io/node-id"] = f"!in({nodes})"
        work = {**unit.work, "names": {node.id: node.name for node in self._connection.nodes()}}
        if unit.group is not None:
            work |= {"group": unit.group.handle, "options": unit.demand.to_options()}
            options["scheduling_strategy"] = unit.group.strategy(0)
            options.pop("label_selector", None)
            work["options"].pop("label_selector", None)
        function = self._once if unit.demand.gpus else self._often
        call = function.options(name=f"tarmac {unit.task}", **options)
        mirror = self._get_mirror() if unit.has_mirror else None
        unit.ref = call.remote(work, [self._agent(unit.agent)], mirror)
        unit.ref.future().add_done_callback(
            lambda done: self._said.put(lambda: self._on_answer(unit, done))
        )

    def _on_answer(self, unit: Unit, done: Any) -> None:
        error = done.exception()
        if error is None:
            answer: Mapping[str, Any] = done.result()
            if "unseen" in answer and not unit.is_cancelled:
                with self._lock:
                    unit.has_mirror = True
                    self._call(unit)
                return
            ending = returned_ending(
                answer.get("exit", 0), answer.get("said", ""), answer.get("host", "")
            )
        else:
            is_first = unit.task not in self._full_once
            if type(error).__name__ == "OutOfMemoryError":
                self._full_once.add(unit.task)
            ending = ending_of(error, is_first_time=is_first)
        self._finish(unit, ending)

    def _finish(self, unit: Unit, ending: Ending) -> None:
        group, unit.group = unit.group, None
        if group is None:
            self._conclude(unit, ending)
            return

        def conclude() -> None:
            # Another attempt's group would wait for resources that this group still holds
            # (ray#40212).
            group.remove()
            self._conclude(unit, ending)

        threading.Thread(target=conclude, name="tarmac-ray-group", daemon=True).start()

    def _conclude(self, unit: Unit, ending: Ending) -> None:
        with self._lock:
            self._sent.discard(unit)
            self._end(unit, ending)
            self._settled.notify_all()
        self._send_some()
        self.heard()

    def _end(self, unit: Unit, ending: Ending) -> None:
        unit.state, unit.ending = "over", ending
        # Release Ray's copy of the answer, and the secrets.
        unit.ref, unit.work = None, {}

    def _agent(self, content: bytes) -> Any:
        if content not in self._agents:
            self._agents[content] = self._ray.put(content)
        return self._agents[content]

    def _get_mirror(self) -> Any:
        if self._mirror is None:
            strategies = self._ray.util.scheduling_strategies
            here = self._ray.get_runtime_context().get_node_id()
            strategy = strategies.NodeAffinitySchedulingStrategy(here, soft=False)
            actor = self._ray.remote(mirror.Mirror)
            self._mirror = actor.options(num_cpus=0, scheduling_strategy=strategy).remote()
        return self._mirror
