"""The effect of a soak on the machine: growth of the GPUs' counters, and extreme readings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from tarmac.machine import Gpu

# Fields of `Gpu` that only grow while a driver is loaded.
_COUNTER = re.compile("errors|retired_pages$|replays|remaps|remapped|violation")


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SoakedGpu(_Facts):
    """The driver's readings of a GPU during a soak; None stands for an unknown value.

    Attributes:
        name: Label of the GPU, such as ``GPU 0``.
        hottest_c: Highest temperature in the soak, in degrees Celsius.
        most_watts: Highest power draw in the soak, in watts.
        sm_clock_mhz: The ``lowest`` and the ``highest`` SM clock, in MHz.
        slowdowns: All reasons for low clocks that the driver reported.
        counters: Growth of each error counter, zeros included.
    """

    name: str
    hottest_c: int | None = None
    most_watts: float | None = None
    sm_clock_mhz: Mapping[str, int] = {}
    slowdowns: tuple[str, ...] = ()
    counters: Mapping[str, int] = {}


class Soak(_Facts):
    """The requested duration of a soak, and the driver's readings during it.

    Attributes:
        asked_s: Requested duration of the soak, in seconds.
        interrupted: Whether the soak was stopped before that.
        gpus: Readings of all GPUs of the driver.
        kernel_log: Lines that the kernel's log gained meanwhile, of those that matter.
    """

    asked_s: float
    interrupted: bool = False
    gpus: tuple[SoakedGpu, ...] = ()
    kernel_log: tuple[str, ...] = ()


def watched_gpus(seen: Sequence[Sequence[Gpu]]) -> tuple[SoakedGpu, ...]:
    """Return the summary of the driver's readings of its GPUs at several times.

    Args:
        seen: Readings of all GPUs at each time, the first before the soak and the last after it.
    """
    return tuple(
        _watched([gpu for gpus in seen for gpu in gpus if gpu.index == first.index])
        for first in (seen[0] if seen else ())
    )


def _watched(times: Sequence[Gpu]) -> SoakedGpu:
    clocks = [gpu.sm_clock_mhz["now"] for gpu in times if "now" in gpu.sm_clock_mhz]
    reasons = dict.fromkeys(reason for gpu in times for reason in gpu.slowdowns)
    return SoakedGpu(
        name=times[0].label,
        hottest_c=max((t for gpu in times if (t := gpu.temperature_c) is not None), default=None),
        most_watts=max((w for gpu in times if (w := gpu.power_watts.get("now"))), default=None),
        sm_clock_mhz={"lowest": min(clocks), "highest": max(clocks)} if clocks else {},
        slowdowns=tuple(reasons),
        counters=counter_changes(times[0], times[-1]),
    )


def counter_changes(before: Gpu, after: Gpu) -> dict[str, int]:
    """Return the growth of each error counter that is known at both times."""
    then, now = dict(_counters(before)), dict(_counters(after))
    return {name: now[name] - then[name] for name in then if name in now}


def _counters(gpu: Gpu) -> Iterator[tuple[str, int]]:
    for name, value in gpu.model_dump().items():
        if not _COUNTER.search(name):
            continue
        parts = value.items() if isinstance(value, Mapping) else [("", value)]
        for part, number in parts:
            if isinstance(number, int) and not isinstance(number, bool):
                yield f"{name} {part}".strip().replace("_", " "), number
