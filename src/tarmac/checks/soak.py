"""Keeps all devices busy for minutes, and reads their state meanwhile."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tarmac.checks.evidence import Probe
from tarmac.checks.frameworks import SOAK
from tarmac.checks.run_probe import run_probe
from tarmac.checks.soaked import Soak, watched_gpus
from tarmac.machine import Gpu, Nvml, open_nvml

if TYPE_CHECKING:
    from tarmac.checks.targets import Target

# Seconds between readings of the driver, as temperatures need seconds to change.
_ASK_EVERY_S = 2.0


@dataclasses.dataclass(frozen=True)
class SoakedDevice:
    """The progress of one device in a soak.

    Attributes:
        name: Device as PyTorch names it, such as ``cuda:0``.
        step: Step that runs now; ``start`` at first.
        comparisons: Number of comparisons done so far.
        num_mismatches: Number of comparisons that showed a difference.
        lost: Premature end of its process, in words; empty where there was none.
    """

    name: str
    step: str
    comparisons: int
    num_mismatches: int
    lost: str


@dataclasses.dataclass(frozen=True)
class SoakProgress:
    """The progress of a soak.

    Attributes:
        elapsed_s: Seconds since the soak's start.
        limit_s: Seconds that the soak is to take.
        devices: Progress of all soaked devices; empty until they are known.
        hottest_c: Temperature of the hottest GPU now, in degrees Celsius; None where the driver
            reports none.
    """

    elapsed_s: float
    limit_s: float
    devices: tuple[SoakedDevice, ...]
    hottest_c: int | None


def soak(
    target: Target,
    *,
    limit_s: float,
    silence_s: float,
    devices: Sequence[str] = (),
    stop: threading.Event,
    tell: Callable[[SoakProgress], None] | None = None,
) -> tuple[Probe, Soak]:
    """Compute, copy and fill memory on every device for some time, and compare all results.

    Args:
        target: Interpreter or image whose PyTorch computes.
        limit_s: Duration in seconds; a round that runs at the end is finished.
        silence_s: Seconds without progress after which a device counts as hung.
        devices: ``cuda:0``, ``cuda``, ``cpu``. Default: all GPUs, or the CPU without one.
        stop: When set, the soak is ended at once.
        tell: Called several times a second with the progress.
    """
    started = time.monotonic()
    with open_nvml() as nvml:

        def look() -> tuple[Gpu, ...]:
            return nvml.read_gpus() if isinstance(nvml, Nvml) else ()

        seen = [look()]
        asked_at = time.monotonic()

        def watch(written: Mapping[str, Any]) -> None:
            nonlocal asked_at
            now = time.monotonic()
            if now - asked_at >= _ASK_EVERY_S:
                seen.append(look())
                asked_at = now
            if tell is not None:
                hottest = max((gpu.temperature_c or 0 for gpu in seen[-1]), default=0)
                tell(
                    SoakProgress(
                        elapsed_s=now - started,
                        limit_s=limit_s,
                        devices=tuple(_devices(written)),
                        hottest_c=hottest or None,
                    )
                )

        probe = run_probe(
            SOAK,
            target,
            depth="normal",
            devices=devices,
            # The program itself ends a device that hangs, `silence_s` after its last progress.
            timeout_s=limit_s + 2 * silence_s,
            environment={
                "TARMAC_PROBE_SOAK_S": f"{limit_s:g}",
                "TARMAC_PROBE_SILENCE_S": f"{silence_s:g}",
            },
            stop=stop,
            watch=watch,
        )
        seen.append(look())
    interrupted = stop.is_set() and probe.outcome == "hung"
    if interrupted:
        detail = f"after {time.monotonic() - started:.0f} of {limit_s:g} s"
        # An interrupted probe cannot end its own children, so they are no finding.
        update = {"outcome": "interrupted", "detail": detail, "left_behind": 0}
        probe = probe.model_copy(update=update)
    return probe, Soak(asked_s=limit_s, interrupted=interrupted, gpus=watched_gpus(seen))


def _devices(written: Mapping[str, Any]) -> list[SoakedDevice]:
    return [
        SoakedDevice(
            name=device["name"],
            step=device.get("soak", {}).get("step", "start"),
            comparisons=device.get("soak", {}).get("comparisons", 0),
            num_mismatches=device.get("soak", {}).get("num_mismatches", 0),
            lost=device.get("lost", ""),
        )
        for device in written.get("devices", ())
    ]
