"""What a look at a training takes from its samples, line by line as they come.

A look every second cannot read thousands of points each time; `read_samples` is for whoever wants
all of them.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

from tarmac.files import Fields

if TYPE_CHECKING:
    from datetime import datetime

# A kernel in so small a share of a point's time is not the training's.
_ACTIVE_RATIO = 0.01

# Steps that a median is of.
_GAPS = 20


@dataclasses.dataclass
class Sampled:
    """What the points so far have come to.

    Attributes:
        active_s: By GPU, the time of the last point in which it did anything, in seconds since the
            run was made.
        energy_joules: By GPU, what it has used until the last point.
        host: Where the last session computes.
        uuids: The GPUs that it has there.
        stepped_s: The time of the last point that knew of more steps than the one before it, in
            seconds since the run was made; None before there is one.
    """

    active_s: dict[str, float] = dataclasses.field(default_factory=dict)
    energy_joules: dict[str, float] = dataclasses.field(default_factory=dict)
    host: str = ""
    uuids: tuple[str, ...] = ()
    stepped_s: float | None = None
    _steps: int | None = None
    _gaps: deque[float] = dataclasses.field(default_factory=lambda: deque(maxlen=_GAPS))

    def add(self, line: object) -> None:
        """Add a line of ``samples.jsonl``; what is no such line says nothing."""
        point = Fields.of(line)
        if point.text("kind") == "session":
            self.host = point.text("host") or ""
            gpus = (gpu.text("uuid") for gpu in point.inners("gpus"))
            self.uuids = tuple(uuid for uuid in gpus if uuid)
            # What this one trains is compiled and warmed up anew.
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
        """The median time from one point that knew of more steps to the next; None of fewer than 2.

        Points come every few seconds, so where steps are shorter it is a point's time.
        """
        gaps = sorted(self._gaps)
        return gaps[len(gaps) // 2] if len(gaps) > 1 else None

    def active_at(self, created_at: datetime | None) -> dict[str, datetime]:
        """Return when each GPU last did anything, of a run that was made then."""
        if created_at is None:
            return {}
        return {uuid: created_at + timedelta(seconds=s) for uuid, s in self.active_s.items()}

    @property
    def total_joules(self) -> float | None:
        """What all GPUs have used until the last point; None where none of them says."""
        return sum(self.energy_joules.values()) if self.energy_joules else None
