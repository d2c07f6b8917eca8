"""Incremental reading of a training's samples, line by line.

A monitor polls every second and cannot read thousands of points each time. `read_samples` reads all
points.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from datetime import datetime, timedelta

from tarmac.files import Fields

# Below this share of a point's time, kernels are not the training's.
_ACTIVE_RATIO = 0.01

# Number of step intervals that the median is taken of.
_GAPS = 20


@dataclasses.dataclass
class Sampled:
    """A summary of the points read so far.

    Attributes:
        active_s: Time of each GPU's last activity, in seconds since the run was created.
        energy_joules: Energy of each GPU until the last point, in joules.
        host: Host of the last session.
        uuids: UUIDs of the last session's GPUs.
        stepped_s: Time of the last point with more steps than the point before it, in seconds since
            the run was created; None before there is one.
    """

    active_s: dict[str, float] = dataclasses.field(default_factory=dict)
    energy_joules: dict[str, float] = dataclasses.field(default_factory=dict)
    host: str = ""
    uuids: tuple[str, ...] = ()
    stepped_s: float | None = None
    _steps: int | None = None
    _gaps: deque[float] = dataclasses.field(default_factory=lambda: deque(maxlen=_GAPS))

    def add(self, line: object) -> None:
        """Add a line of ``samples.jsonl``; malformed lines are ignored."""
        point = Fields.of(line)
        if point.text("kind") == "session":
            self.host = point.text("host") or ""
            gpus = (gpu.text("uuid") for gpu in point.inners("gpus"))
            self.uuids = tuple(uuid for uuid in gpus if uuid)
            # A new session compiles and warms up again.
            self.stepped_s = None
        at_s = point.number("at_s")
        if point.text("kind") != "sample" or at_s is None:
            return
        self._step(point.whole("steps"), at_s)
        for uuid in point.inner("gpus").values:
            gpu = point.inner("gpus").inner(uuid)
            if (gpu.number("utilization_ratio") or 0.0) > _ACTIVE_RATIO:
                self.active_s[uuid] = max(at_s, self.active_s.get(uuid, at_s))
            if (energy := gpu.number("energy_joules")) is not None:
                self.energy_joules[uuid] = energy

    def _step(self, steps: int | None, at_s: float) -> None:
        if steps is None or steps == self._steps:
            return
        if self.stepped_s is not None:
            self._gaps.append(at_s - self.stepped_s)
        self._steps, self.stepped_s = steps, at_s

    @property
    def between_steps_s(self) -> float | None:
        """The median time between points with more steps, in seconds; None below two intervals.

        Points come every few seconds. For shorter steps, the result is the interval of points.
        """
        gaps = sorted(self._gaps)
        return gaps[len(gaps) // 2] if len(gaps) > 1 else None

    def active_at(self, created_at: datetime | None) -> dict[str, datetime]:
        """Return the time of each GPU's last activity, for a run created at a time."""
        if created_at is None:
            return {}
        return {uuid: created_at + timedelta(seconds=s) for uuid, s in self.active_s.items()}

    @property
    def total_joules(self) -> float | None:
        """The energy of all GPUs until the last point, in joules; None where no GPU reports it."""
        return sum(self.energy_joules.values()) if self.energy_joules else None
