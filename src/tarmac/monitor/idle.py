"""GPUs that are held and do nothing, and since when; pure.

The clock of a GPU runs from its last activity, not over a mean: a training that stopped computing
an hour ago has been idle for an hour, however busy it was before. It does not run while all that
holds the GPU is still before its first step.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tarmac.machine import LiveGpu

# A kernel in so small a share of the last moment is a monitor's, or a desktop's.
_BUSY_RATIO = 0.01

# A card with contexts and high clocks takes up to this share of its limit while it does nothing: a
# T4 27 of 70 W, an H100 120 of 700 W.
_RESTING_SHARE = 0.4

# Who has so much of a GPU's memory holds it, whatever they do.
_HELD_MEMORY_SHARE = 0.05

# So long may work take to its first step; then it holds a GPU for nothing like any other.
WARM_UP_S = 1800.0


@dataclasses.dataclass(frozen=True)
class Standing:
    """How a GPU stands.

    Attributes:
        state: ``busy``, ``free``, ``held`` or ``bad``; see `HostSnapshot.gpu_states`.
        is_warming: Whether all that holds it has yet to do its first step.
    """

    state: str
    is_warming: bool = False


def is_quiet(gpu: LiveGpu) -> bool | None:
    """Whether a GPU does nothing now; None where it does not tell, as a MIG slice does not.

    No kernel ran, and its watts are those of a card at rest: some work counts as no kernel.
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
    """Return how a GPU stands.

    Args:
        gpu: As it is now.
        is_given: Whether work that is alive has it, by processes or by being given it.
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
        # Nothing says that it is idle: what is held is taken to be in use.
        return Standing("busy" if is_held else "free")
    return Standing("held", is_warming) if is_held else Standing("free")


def _is_taken(gpu: LiveGpu) -> bool:
    """Whether somebody has more of its memory than a desktop takes, seen or not.

    In a container the driver tells of no processes but its own.
    """
    total = gpu.memory_total_bytes
    known = [row.memory_bytes for row in gpu.processes if row.memory_bytes is not None]
    if not total or (not known and gpu.memory_used_bytes is None):
        # A slice that does not tell its memory: a program that computes there holds it.
        return any(row.kind != "graphics" for row in gpu.processes)
    return max(sum(known), gpu.memory_used_bytes or 0) > _HELD_MEMORY_SHARE * total


@dataclasses.dataclass(frozen=True)
class IdleClock:
    """When each GPU that is held was last seen to do anything.

    Attributes:
        last_active: By UUID, UTC; without those that are not held.
    """

    last_active: Mapping[str, datetime] = dataclasses.field(default_factory=dict)

    def advanced(
        self,
        standings: Mapping[str, Standing],
        now: datetime,
        told: Mapping[str, datetime] | None = None,
    ) -> IdleClock:
        """Return the clock after a look.

        Args:
            standings: State of each GPU, by UUID.
            now: Time of this look, UTC.
            told: When GPUs were last active as runs have sampled it, which is how long before its
                first look a monitor can know of.
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
                last[uuid] = min((told or {}).get(uuid, now), now)
        return IdleClock(last)

    def idle_s(self, now: datetime) -> dict[str, float]:
        """Return for how long each GPU that is held has done nothing, in seconds."""
        return {
            uuid: max(0.0, (now - since) / timedelta(seconds=1))
            for uuid, since in self.last_active.items()
        }


def idle_of_work(gpu_uuids: Sequence[str], idle_s: Mapping[str, float]) -> float | None:
    """Return for how long a work's GPUs have all done nothing; None while one of them works.

    Args:
        gpu_uuids: UUIDs of the GPUs that the work uses.
        idle_s: By UUID, seconds that each held GPU has been idle. Other GPUs are absent.
    """
    values = [idle_s.get(uuid) for uuid in gpu_uuids]
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None


def unused_of(gpu_uuids: Sequence[str], used: Collection[str]) -> tuple[str, ...]:
    """Return the GPUs that a work was given and on which no process of it is."""
    return tuple(uuid for uuid in gpu_uuids if uuid not in used)
