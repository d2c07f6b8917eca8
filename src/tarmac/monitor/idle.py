"""GPUs that are held but idle, and for how long; pure.

A GPU's idle time counts from its last activity, not from a mean. A training that stopped computing
an hour ago has been idle for an hour, however busy it was before. The time does not count while all
work that holds the GPU is before its first step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.machine import LiveGpu

# Kernels in a smaller share of the last moment are from a monitor or a desktop.
_BUSY_RATIO = 0.01

# An idle card with contexts and high clocks draws up to this share of its power limit: a T4 27 of
# 70 W, an H100 120 of 700 W.
_RESTING_SHARE = 0.4

# A process with this share of a GPU's memory holds the GPU, whatever it does.
_HELD_MEMORY_SHARE = 0.05

# Time that work may take to its first step. After it, the work counts as idle like any other.
WARM_UP_S = 1800.0


@dataclasses.dataclass(frozen=True)
class Standing:
    """The state of a GPU.

    Attributes:
        state: ``busy``, ``free``, ``held`` or ``bad``; see `HostSnapshot.gpu_states`.
        is_warming: Whether all work that holds it is before its first step.
    """

    state: str
    is_warming: bool = False


def is_quiet(gpu: LiveGpu) -> bool | None:
    """Return whether a GPU is idle now; None if that is unknown, as for a MIG slice.

    An idle GPU runs no kernel and draws the power of an idle card. Power counts because some work
    does not show as a kernel.
    """
    if gpu.utilization_ratio is None:
        return None
    if gpu.utilization_ratio > _BUSY_RATIO:
        return False
    if gpu.power_watts is None or not gpu.power_limit_watts:
        return True
    return gpu.power_watts <= _RESTING_SHARE * gpu.power_limit_watts


def standing_of(
    gpu: LiveGpu, *, is_given: bool, is_warming: bool, is_bad: bool = False
) -> Standing:
    """Return the state of a GPU.

    Args:
        gpu: GPU as of this look.
        is_given: Whether live work has it, by its processes or by assignment.
        is_warming: Whether all of that work is before its first step.
        is_bad: Whether a finding of the level ``failure`` is about it.
    """
    if gpu.error is not None or is_bad:
        return Standing("bad")
    is_held = is_given or _is_taken(gpu)
    quiet = is_quiet(gpu)
    if quiet is False:
        return Standing("busy")
    if quiet is None:
        # Its activity is unknown, so a held GPU counts as busy.
        return Standing("busy" if is_held else "free")
    return Standing("held", is_warming) if is_held else Standing("free")


def _is_taken(gpu: LiveGpu) -> bool:
    """Return whether more of a GPU's memory is in use than a desktop takes.

    The used memory counts too, because in a container the driver lists only the container's own
    processes.
    """
    total = gpu.memory_total_bytes
    known = [row.memory_bytes for row in gpu.processes if row.memory_bytes is not None]
    if not total or (not known and gpu.memory_used_bytes is None):
        # The memory of this slice is unknown: a program that computes on it holds it.
        return any(row.kind != "graphics" for row in gpu.processes)
    return max(sum(known), gpu.memory_used_bytes or 0) > _HELD_MEMORY_SHARE * total


@dataclasses.dataclass(frozen=True)
class IdleClock:
    """The time when each held GPU was last active.

    Attributes:
        last_active: Time of the last activity of each held GPU, by UUID, UTC.
    """

    last_active: Mapping[str, datetime] = dataclasses.field(default_factory=dict)

    def advanced(
        self,
        standings: Mapping[str, Standing],
        now: datetime,
        active_at: Mapping[str, datetime] | None = None,
    ) -> IdleClock:
        """Return the clock after a look.

        Args:
            standings: State of each GPU, by UUID.
            now: Time of this look, UTC.
            active_at: Times when GPUs were last active, by UUID, as sampled by runs. They also
                cover the time before the monitor's first look.
        """
        last: dict[str, datetime] = {}
        for uuid, standing in standings.items():
            if standing.state != "held":
                continue
            if standing.is_warming:
                last[uuid] = now
            elif uuid in self.last_active:
                last[uuid] = self.last_active[uuid]
            else:
                last[uuid] = min((active_at or {}).get(uuid, now), now)
        return IdleClock(last)

    def idle_s(self, now: datetime) -> dict[str, float]:
        """Return how long each held GPU has been idle, in seconds, by UUID."""
        return {
            uuid: max(0.0, (now - since) / timedelta(seconds=1))
            for uuid, since in self.last_active.items()
        }


def idle_of_work(gpu_uuids: Sequence[str], idle_s: Mapping[str, float]) -> float | None:
    """Return how long all GPUs of a work have been idle, in seconds; None while any is active.

    Args:
        gpu_uuids: UUIDs of the GPUs that the work uses.
        idle_s: By UUID, seconds that each held GPU has been idle. Other GPUs are absent.
    """
    values = [idle_s.get(uuid) for uuid in gpu_uuids]
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None


def unused_of(gpu_uuids: Sequence[str], used: Collection[str]) -> tuple[str, ...]:
    """Return the GPUs that were assigned to a work but have no process of it."""
    return tuple(uuid for uuid in gpu_uuids if uuid not in used)
