"""The choice of the next task, its instance, and the idle instances to end for it.

This module only chooses: it starts, ends and reports nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tarmac.hkube.hosting.algorithms import Hosted
from tarmac.hkube.hosting.instances import Instance
from tarmac.hkube.hosting.waiting import Entry, Order
from tarmac.jobs import Machine

# The order of an algorithm without waiting tasks: after all algorithms with waiting tasks.
_LAST = (0, True, 2**62)


class InstanceTable:
    """The algorithms of a run, with their waiting tasks and instances.

    Args:
        hosted: Algorithms, by the name that tasks use.
        machine: Machine whose cores, memory and GPUs the instances use.
        concurrency: Most tasks at once. None: as many as fit.

    Attributes:
        kept: First algorithm in line that lacks room, as of the last dispatch.
        num_busy: Number of running tasks.
    """

    def __init__(
        self, hosted: Mapping[str, Hosted], machine: Machine, concurrency: int | None
    ) -> None:
        self.hosted = hosted
        self.kept: Hosted | None = None
        self.num_busy = 0
        self._machine = machine
        self._concurrency = concurrency

    def instances(self, *states: str) -> Iterator[Instance]:
        """Yield the instances in some states."""
        for hosted in self.hosted.values():
            for instance in hosted.instances:
                if instance.state in states:
                    yield instance

    def is_waited(self) -> bool:
        """Whether any task waits for an instance."""
        return any(hosted.waiting for hosted in self.hosted.values())

    def in_line(self) -> list[Hosted]:
        """Return the algorithms that could use another instance, in the order of their tasks."""

        def order(hosted: Hosted) -> Order:
            first = hosted.waiting.first()
            return _LAST if first is None else first.order

        return sorted((hosted for hosted in self.hosted.values() if hosted.num_wanted), key=order)

    def may_begin(self, entry: Entry | None) -> bool:
        """Whether the limit of concurrent tasks allows another task."""
        if self._concurrency is None or self.num_busy < self._concurrency:
            return True
        # A called task is always allowed, because its waiting caller already counts.
        return entry is not None and entry.work.caller is not None

    def take(self, hosted: Hosted, instance: Instance) -> Entry | None:
        """Return the next task for an instance; None if there is none or the instance must end."""
        first = hosted.waiting.first()
        if first is None or not self.may_begin(first) or self._gives_way(hosted, instance, first):
            return None
        self.num_busy += 1
        return hosted.waiting.pop()

    def is_starting_enough(self) -> bool:
        """Whether as many instances are starting as there are cores: a start takes a core."""
        num_starting = sum(1 for _ in self.instances("starting"))
        return num_starting >= max(1, int(self._machine.cpus))

    def giving_way_to(self, hosted: Hosted) -> list[Instance]:
        """Return the idle instances to end to make room for an algorithm.

        Instances within ``minHotWorkers`` end last, and only if no other instance will end or
        change.
        """
        needs = hosted.template.resources
        coming = [leaving.grant for leaving in self.instances("ending")]
        will_change = bool(coming) or any(self.instances("starting", "busy"))
        idle = [
            (other, instance)
            for other in self.hosted.values()
            for instance in other.instances
            if instance.state == "idle" and not instance.call.done()
        ]
        idle.sort(key=lambda pair: pair[1].idle_since)
        ending: list[Instance] = []
        for with_kept in (False,) if will_change else (False, True):
            for other, instance in idle:
                short = self._machine.shortage(needs, coming)
                if not short:
                    return ending
                num_taken = sum(instance in other.instances for instance in ending)
                is_kept = num_taken >= other.num_idle_to_spare
                if instance in ending or (is_kept and not with_kept):
                    continue
                if short.is_eased_by(instance.grant):
                    ending.append(instance)
                    coming.append(instance.grant)
        return ending

    def waiting_for_each_other(self) -> tuple[Entry, list[str]] | None:
        """Return a deadlock: all running tasks wait for called tasks, which wait for instances.

        Returns:
            The first waiting called task and the names of all running tasks. None: no deadlock.
        """
        queues = [hosted.waiting for hosted in self.hosted.values()]
        if not any(queue.callers for queue in queues):
            return None
        if any(self.instances("starting", "ending")) or any(
            hosted.state == "preparing" for hosted in self.hosted.values()
        ):
            return None
        names = []
        for instance in self.instances("busy"):
            entry = instance.entry
            if entry is None or not any(entry.work.index in queue.callers for queue in queues):
                return None
            names.append(entry.work.name)
        if not names:
            return None
        names.sort()
        called = [entry for queue in queues for entry in queue if entry.work.caller is not None]
        return min(called, key=lambda entry: entry.order), names

    def _gives_way(self, hosted: Hosted, instance: Instance, entry: Entry) -> bool:
        """Whether an earlier task of another algorithm lacks resources that the instance holds."""
        other = self.kept
        if other is None or other is hosted:
            return False
        first = other.waiting.first()
        if first is None or first.order > entry.order:
            return False
        coming = [leaving.grant for leaving in self.instances("ending")]
        short = self._machine.shortage(other.template.resources, coming)
        return short.is_eased_by(instance.grant)
