"""A summary of the driver's readings of a GPU, taken every tenth of a second during probes."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from tarmac.machine import Counters, LoadSample

_WORDS = {
    "sw_power_cap": "power limit",
    "sw_thermal": "heat",
    "hw_thermal": "heat, by hardware",
    "hw_power_brake": "power brake",
    "hw_slowdown": "slowdown by hardware",
    "application_clocks": "application clocks",
    "sync_boost": "sync boost",
    "display_clocks": "display clocks",
}


class UnderLoad(BaseModel):
    """The driver's readings of a GPU while probes measured and the GPU computed.

    Attributes:
        index: Index of the GPU, as the driver counts.
        samples: Number of readings, a tenth of a second apart.
        sm_clock_mhz: The ``median`` and the ``lowest`` SM clock, in MHz.
        reasons: Share of readings, from 0 to 1, in which each reason set the clocks: those of
            `Gpu.slowdowns`, ``application_clocks``, ``sync_boost``, ``display_clocks``.
        temperature_c: Highest temperature of the GPU, in degrees Celsius.
        temperature_margin_c: Smallest distance to the highest operating temperature, in degrees
            Celsius; negative above it.
        memory_temperature_c: Highest temperature of its memory, in degrees Celsius.
        power_watts: Highest power draw, in watts.
        pcie: Highest ``generation`` and ``width`` of the PCIe link.
        grown: Growth of the counters ``corrected_errors``, ``uncorrected_errors`` and
            ``pcie_replays`` during ``seconds``.
        held_back_s: Seconds below the requested clocks during ``seconds``, by ``power`` and by
            ``thermal``.
        seconds: Seconds from before the probes until after them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    samples: int
    sm_clock_mhz: Mapping[str, int] = {}
    reasons: Mapping[str, float] = {}
    temperature_c: int | None = None
    temperature_margin_c: int | None = None
    memory_temperature_c: int | None = None
    power_watts: float | None = None
    pcie: Mapping[str, int] = {}
    grown: Mapping[str, int] = {}
    held_back_s: Mapping[str, float] = {}
    seconds: float = 0.0


def summarise(
    index: int, samples: Sequence[LoadSample], before: Counters, after: Counters, seconds: float
) -> UnderLoad:
    """Return the summary of a GPU's readings.

    Args:
        index: Index of the GPU, as the driver counts.
        samples: Readings a tenth of a second apart, at least 1.
        before: Counters read before the probes.
        after: Counters read after the probes.
        seconds: Seconds from ``before`` to ``after``.
    """

    def seen(name: str) -> list[Any]:
        values = (getattr(sample, name) for sample in samples)
        return [value for value in values if value is not None]

    clocks = seen("sm_clock_mhz")
    counted = Counter(reason for sample in samples for reason in sample.reasons)
    links = {"generation": seen("pcie_generation"), "width": seen("pcie_width")}
    return UnderLoad(
        index=index,
        samples=len(samples),
        sm_clock_mhz=(
            {"median": round(statistics.median(clocks)), "lowest": min(clocks)} if clocks else {}
        ),
        reasons={reason: round(count / len(samples), 3) for reason, count in counted.most_common()},
        temperature_c=max(seen("temperature_c"), default=None),
        temperature_margin_c=min(seen("temperature_margin_c"), default=None),
        memory_temperature_c=max(seen("memory_temperature_c"), default=None),
        power_watts=max(seen("power_watts"), default=None),
        pcie={name: max(values) for name, values in links.items() if values},
        grown={
            name: after.errors[name] - count
            for name, count in before.errors.items()
            if name in after.errors
        },
        held_back_s={
            name: round(after.held_back_s[name] - held, 3)
            for name, held in before.held_back_s.items()
            if name in after.held_back_s
        },
        seconds=round(seconds, 3),
    )


def reasons_in_words(load: UnderLoad) -> str:
    """Return the reasons for a GPU's clocks, most frequent first; empty where there were none.

    An example is ``power limit 96 % of the time``.
    """
    return ", ".join(
        f"{_WORDS.get(reason, reason)} {share:.0%} of the time".replace("%", " %")
        for reason, share in sorted(load.reasons.items(), key=lambda item: -item[1])
    )
