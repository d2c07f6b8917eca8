"""AMD's GPUs at one moment, read from their driver's files without ROCm's tools."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tarmac.machine.amd_files import (
    count_ras_errors,
    read_number,
    read_sensor,
    text_of,
)
from tarmac.machine.live import LiveGpu
from tarmac.machine.live_amd_processes import AmdProcessReader

_SLOW_S = 5.0

# Generation of PCIe by a link's speed in GT/s, as the kernel writes it.
_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}

# Full speed of a fan, in the steps of hwmon.
_FAN_STEPS = 255


@dataclasses.dataclass
class _Card:
    device: Path
    gpu: LiveGpu
    slow: dict[str, Any]


class AmdReader:
    """A reader of AMD's cards, which are numbered in the order of the bus.

    Args:
        root: Directory with ``proc`` and ``sys``.
        clock: Monotonic clock in seconds; for tests.
    """

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slow_at = float("-inf")
        # Only AMD's driver has this file.
        paths = sorted((root / "sys/bus/pci/devices").glob("*/mem_info_vram_total"))
        self._cards = [
            _Card(path.parent, _identify(index, path.parent), {})
            for index, path in enumerate(paths)
        ]
        self._processes = AmdProcessReader(root, clock)

    @property
    def has_cards(self) -> bool:
        """Whether there is any card."""
        return bool(self._cards)

    @property
    def cards(self) -> tuple[LiveGpu, ...]:
        """The constant values of the cards."""
        return tuple(card.gpu for card in self._cards)

    def read(self) -> tuple[LiveGpu, ...]:
        """Return the current values of the cards; a removed card has an `error`."""
        now = self._clock()
        is_slow_turn = bool(self._cards) and now - self._slow_at >= _SLOW_S
        if is_slow_turn:
            self._slow_at = now
            processes = self._processes.read()
            for card in self._cards:
                card.slow = _read_slow(card.device)
                card.slow["processes"] = processes.get(card.device.name, ())
        return tuple(_read(card) for card in self._cards)


def _identify(index: int, device: Path) -> LiveGpu:
    # The form that ROCm uses, and that ROCR_VISIBLE_DEVICES takes.
    unique = text_of(device / "unique_id")
    return LiveGpu(
        index=index,
        uuid=f"GPU-{unique.lower()}" if unique else f"amd:{device.name}",
        name=text_of(device / "product_name") or "AMD GPU",
        maker="amd",
        pci_address=device.name,
        memory_total_bytes=read_number(device / "mem_info_vram_total"),
        max_pcie_generation=_generation(device / "max_link_speed"),
        max_pcie_width=read_number(device / "max_link_width"),
    )


def _read(card: _Card) -> LiveGpu:
    device = card.device
    if not (device / "vendor").exists():
        return LiveGpu(
            index=card.gpu.index,
            uuid=card.gpu.uuid,
            name=card.gpu.name,
            maker="amd",
            pci_address=card.gpu.pci_address,
            error="it is no longer on the bus",
        )
    edge = _scaled(read_sensor(device, "temp1_input", "temp2_input"), 1e3)
    clock = _scaled(read_sensor(device, "freq1_input"), 1e6)
    return dataclasses.replace(
        card.gpu,
        utilization_ratio=_percent(device / "gpu_busy_percent"),
        memory_utilization_ratio=_percent(device / "mem_busy_percent"),
        memory_used_bytes=read_number(device / "mem_info_vram_used"),
        power_watts=_scaled(read_sensor(device, "power1_average", "power1_input"), 1e6),
        temperature_c=edge,
        memory_temperature_c=_scaled(read_sensor(device, "temp3_input"), 1e3),
        sm_clock_mhz=None if clock is None else round(clock),
        **card.slow,
    )


def _read_slow(device: Path) -> dict[str, Any]:
    uncorrected, corrected = count_ras_errors(device)
    memory_clock = _scaled(read_sensor(device, "freq2_input"), 1e6)
    return {
        "power_limit_watts": _scaled(read_sensor(device, "power1_cap"), 1e6),
        "fan_ratio": _scaled(read_sensor(device, "pwm1"), _FAN_STEPS),
        "memory_clock_mhz": None if memory_clock is None else round(memory_clock),
        "max_sm_clock_mhz": _highest_clock(device / "pp_dpm_sclk"),
        "pcie_generation": _generation(device / "current_link_speed"),
        "pcie_width": read_number(device / "current_link_width"),
        "uncorrected_errors": uncorrected,
        "corrected_errors": corrected,
    }


def _percent(path: Path) -> float | None:
    percent = read_number(path)
    return None if percent is None or percent > 100 else percent / 100


def _scaled(value: int | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _generation(path: Path) -> int | None:
    speed = (text_of(path) or "").partition(" ")[0]
    return _GENERATIONS.get(speed)


def _highest_clock(path: Path) -> int | None:
    """Return the highest clock that a card offers, from lines such as ``1: 2100Mhz *``."""
    clocks = re.findall(r"^\d+: (\d+)Mhz", text_of(path) or "", re.MULTILINE)
    return max(map(int, clocks), default=None)
