"""Values of GPUs and trainings in the last hour, in memory, for sparklines and plots."""

from __future__ import annotations

import array
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import HostSnapshot, Snapshot

# Number of readings of each value: an hour at one per second.
KEPT = 3600


class History:
    """The newest values of each GPU and each training, at 4 bytes per value.

    Args:
        kept: Number of readings to keep of each value.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._rings: dict[tuple[str, str, str], array.array[float]] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot, and drop GPUs and trainings that are gone."""
        seen = set()
        for host in snapshot.hosts:
            for key, value in _values_of(host):
                seen.add(key)
                ring = self._rings.setdefault(key, array.array("f"))
                ring.append(math.nan if value is None or host.problem else value)
                # Only now and then, because a deletion moves the whole array.
                if len(ring) > self._kept * 5 // 4:
                    del ring[: -self._kept]
        for key in self._rings.keys() - seen:
            del self._rings[key]

    def values(self, host: str, of: str, name: str) -> list[float | None]:
        """Return the values of a GPU or a training, the newest last; None for unknown values.

        Args:
            host: Name of the host that it is on.
            of: UUID of the GPU, or `Work.id` of the training.
            name: ``util``, ``memory``, ``watts`` or ``temperature``; for a training ``loss`` or
                ``speed``.
        """
        ring = self._rings.get((host, of, name), array.array("f"))
        return [None if math.isnan(value) else value for value in ring[-self._kept :]]

    def newest(self, host: str, uuid: str, number: int) -> list[float | None]:
        """Return at most ``number`` of the newest utilizations of a GPU."""
        ring = self._rings.get((host, uuid, "util"), array.array("f"))
        return [None if math.isnan(value) else value for value in ring[-number:]]

    def mean(self, host: str, uuids: Iterable[str], name: str) -> list[float | None]:
        """Return the mean of several GPUs' values, the newest last."""
        series = [self.values(host, uuid, name) for uuid in uuids]
        length = max(map(len, series), default=0)
        filled = [_filled(values, length) for values in series]
        means: list[float | None] = []
        for together in zip(*filled, strict=True):
            known = [value for value in together if value is not None]
            means.append(sum(known) / len(known) if known else None)
        return means


def _values_of(host: HostSnapshot) -> Iterator[tuple[tuple[str, str, str], float | None]]:
    for gpu in host.gpus:
        yield (host.host.name, gpu.uuid, "util"), gpu.utilization_ratio
        yield (host.host.name, gpu.uuid, "memory"), gpu.memory_used_bytes
        yield (host.host.name, gpu.uuid, "watts"), gpu.power_watts
        yield (host.host.name, gpu.uuid, "temperature"), gpu.temperature_c
    for work in host.work:
        if work.kind == "training":
            yield (host.host.name, work.id, "loss"), work.loss
            yield (host.host.name, work.id, "speed"), work.samples_per_s


def _filled(values: list[float | None], length: int) -> list[float | None]:
    return [*itertools.repeat(None, length - len(values)), *values]
