"""Reasons why work is slow: waits, and limits on its GPUs; pure.

Shares below 5 % are not reported. Shares from 20 % on are the problem, as in TensorFlow's profiler
for input pipelines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.machine import LiveGpu

WORTH_A_LINE = 0.05
MUCH = 0.20

# Below this share of its highest clock, a busy GPU is held back, whatever the driver's reasons.
_LOW_CLOCK = 0.8
_BUSY_RATIO = 0.5

# Share of the capacity of its lanes in one direction.
_BUSY_LINK = 0.8

# Bytes a second that a lane of each generation carries, after encoding (PCI Express base
# specification: 2.5, 5, 8, 16, 32 and 64 GT/s; 8b/10b, then 128b/130b, then flits).
_LANE_BYTES_PER_S = {1: 250e6, 2: 500e6, 3: 985e6, 4: 1969e6, 5: 3938e6, 6: 7563e6}

_HEAT = ("sw_thermal", "hw_thermal")
_BRAKE = ("hw_power_brake",)


@dataclasses.dataclass(frozen=True)
class Reason:
    """A reason why work is slow.

    Attributes:
        share: Share of the work's time lost to this, 0 to 1, or the shortfall. The largest share
            sorts first.
        text: Explanation on a single line.
        command: Command to type. Empty where none helps.
    """

    share: float
    text: str
    command: str = ""

    @property
    def is_much(self) -> bool:
        """Whether this is the problem, rather than a detail."""
        return self.share >= MUCH


@dataclasses.dataclass(frozen=True)
class GpuPast:
    """Earlier counters of a GPU.

    Attributes:
        at_s: Time of the counters, in seconds of a monotonic clock.
        throttled_s: Seconds of lowered clocks by cause, the same as `LiveGpu.throttled_s`.
    """

    at_s: float
    throttled_s: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Neighbour:
    """A process of other work on a GPU.

    Attributes:
        sm_ratio: Share of the GPU that it kept busy, 0 to 1.
        name: Owner and program of the process, or the name of its work.
    """

    gpu_index: int
    sm_ratio: float
    name: str


def throttled_shares(gpu: LiveGpu, past: GpuPast | None, at_s: float) -> dict[str, float]:
    """Return the share of the time since ``past`` with lowered clocks, by reason.

    Args:
        gpu: GPU as of this look.
        past: Earlier counters of the same GPU. None on the first look.
        at_s: Current time, in seconds of the same clock.
    """
    if past is None or at_s <= past.at_s:
        return {}
    return {
        name: min(1.0, max(0.0, (value - past.throttled_s[name]) / (at_s - past.at_s)))
        for name, value in gpu.throttled_s.items()
        if name in past.throttled_s
    }


def reasons_of(
    waits: Mapping[str, float],
    gpus: Sequence[LiveGpu],
    *,
    throttled: Mapping[str, Mapping[str, float]] | None = None,
    quota_ratio: float | None = None,
    neighbours: Sequence[Neighbour] = (),
    slowest_rank: str = "",
    xids: Sequence[str] = (),
) -> tuple[Reason, ...]:
    """Return the reasons why work is slow, the worst first; empty while it is not slow.

    Args:
        waits: Share of its time spent waiting, 0 to 1, by cause: ``data``, ``ranks``.
        gpus: GPUs that the work uses.
        throttled: `throttled_shares` of the last minute, by UUID.
        quota_ratio: Share of the periods in which its CPU quota ran out, 0 to 1.
        neighbours: Processes of other work on the same GPUs.
        slowest_rank: Rank that the others wait for, in words; empty if unknown.
        xids: Errors of its GPUs since it began, in words.
    """
    causes = [*_waiting(waits, slowest_rank)]
    held_back: dict[str, list[Reason]] = {}
    for gpu in gpus:
        shares = (throttled or {}).get(gpu.uuid, {})
        for kind, reason in (*_held_back(gpu, shares), *_link(gpu)):
            held_back.setdefault(kind, []).append(reason)
    causes += [_in_one_line(reasons) for reasons in held_back.values()]
    if quota_ratio is not None and quota_ratio >= WORTH_A_LINE:
        text = f"its quota of CPU ran out in {quota_ratio:.0%} of the last periods"
        causes.append(Reason(quota_ratio, text))
    for neighbour in neighbours:
        if neighbour.sm_ratio >= WORTH_A_LINE:
            text = f"{neighbour.name} takes {neighbour.sm_ratio:.0%} of GPU {neighbour.gpu_index}"
            causes.append(Reason(neighbour.sm_ratio, text))
    causes += [Reason(1.0, f"{text} since it began", "tarmac check") for text in xids]
    return tuple(sorted(causes, key=lambda reason: -reason.share))


def _waiting(waits: Mapping[str, float], slowest_rank: str) -> list[Reason]:
    reasons = []
    if (share := waits.get("data", 0.0)) >= WORTH_A_LINE:
        reasons.append(Reason(share, f"waits for data {share:.0%} of the time"))
    if (share := waits.get("ranks", 0.0)) >= WORTH_A_LINE:
        whom = slowest_rank or "other ranks"
        reasons.append(Reason(share, f"waits for {whom} {share:.0%} of the time"))
    return reasons


def _in_one_line(reasons: Sequence[Reason]) -> Reason:
    """Return the worst of several GPUs' reasons of one kind, with the number of other GPUs."""
    worst = max(reasons, key=lambda reason: reason.share)
    others = len(reasons) - 1
    if not others:
        return worst
    more = f"{worst.text}, and {others} other {'GPU' if others == 1 else 'GPUs'}"
    return dataclasses.replace(worst, text=more)


def _held_back(gpu: LiveGpu, shares: Mapping[str, float]) -> list[tuple[str, Reason]]:
    """Return the reasons for a GPU's lowered clocks, each with its kind."""
    name = f"GPU {gpu.index}"
    reasons: list[tuple[str, Reason]] = []
    heat = shares.get("thermal", 0.0)
    if heat >= WORTH_A_LINE or any(reason in _HEAT for reason in gpu.throttle_reasons):
        degrees = "" if gpu.temperature_c is None else f" ({gpu.temperature_c:.0f} °C)"
        when = f"{heat:.0%} of the time" if heat >= WORTH_A_LINE else "now"
        reasons.append(
            ("heat", Reason(max(heat, WORTH_A_LINE), f"{name} is slowed by heat {when}{degrees}"))
        )
    if any(reason in _BRAKE for reason in gpu.throttle_reasons):
        reasons.append(("brake", Reason(MUCH, f"{name} is slowed by the machine's power brake")))
    power = shares.get("power", 0.0)
    # Most cards run at their power limit under full load, so this is never the main problem.
    if power >= MUCH:
        limit = "" if gpu.power_limit_watts is None else f" of {gpu.power_limit_watts:.0f} W"
        text = f"{name} is at its power limit{limit} {power:.0%} of the time"
        reasons.append(
            ("power", Reason(WORTH_A_LINE, text, f"nvidia-smi -i {gpu.index} -q -d POWER"))
        )
    clock, most = gpu.sm_clock_mhz, gpu.max_sm_clock_mhz
    is_busy = (gpu.utilization_ratio or 0.0) >= _BUSY_RATIO
    if not reasons and is_busy and clock and most and clock < _LOW_CLOCK * most:
        text = f"{name} runs at {clock} of {most} MHz"
        reasons.append(
            ("clock", Reason(1 - clock / most, text, f"nvidia-smi -i {gpu.index} -q -d CLOCK"))
        )
    return reasons


def _link(gpu: LiveGpu) -> list[tuple[str, Reason]]:
    """Return the problems of a busy GPU's link; the link of an idle GPU is slow on purpose."""
    name, width, most = f"GPU {gpu.index}", gpu.pcie_width, gpu.max_pcie_width
    if (gpu.utilization_ratio or 0.0) < _BUSY_RATIO:
        return []
    reasons: list[tuple[str, Reason]] = []
    if width and most and width < most:
        text = f"{name} is linked by {width} of {most} PCIe lanes"
        reasons.append(("lanes", Reason(1 - width / most, text, "tarmac check")))
    generation, newest = gpu.pcie_generation, gpu.max_pcie_generation
    if generation and newest and generation < newest:
        text = f"{name} is linked by PCIe generation {generation} of {newest}"
        reasons.append(("generation", Reason(WORTH_A_LINE, text, "tarmac check")))
    lane = _LANE_BYTES_PER_S.get(generation or 0)
    carried = max(gpu.pcie_sent_bytes_per_s or 0.0, gpu.pcie_received_bytes_per_s or 0.0)
    if lane and width and carried >= _BUSY_LINK * lane * width:
        share = carried / (lane * width)
        text = f"{name} copies {carried / 1e9:.0f} GB/s, {share:.0%} of what its link carries"
        reasons.append(("copies", Reason(WORTH_A_LINE, text)))
    return reasons
