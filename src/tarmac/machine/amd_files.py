"""AMD's GPUs in the kernel's files: those of the driver amdgpu, and of KFD.

https://docs.kernel.org/gpu/amdgpu/index.html documents all files.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class KfdNode:
    """A GPU among the nodes of KFD.

    Attributes:
        address: PCI address of the card, such as ``0000:75:00.0``.
        gfx_version: Target of compiled programs: 90402 is gfx942.
        gpu_id: KFD's number of the GPU; None if unknown.
    """

    address: str
    gfx_version: int
    gpu_id: int | None = None


def find_kfd_nodes(root: Path = Path("/")) -> Iterator[KfdNode]:
    """Yield the GPUs in KFD's order.

    Args:
        root: Directory with ``sys``; for tests.
    """
    nodes = (root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")
    for path in sorted(nodes, key=lambda path: (len(path.parent.name), path.parent.name)):
        lines = [line.split() for line in (text_of(path) or "").splitlines()]
        facts = {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdecimal()}
        version, location = facts.get("gfx_target_version", 0), facts.get("location_id", 0)
        if version == 0:
            # KFD numbers CPUs too.
            continue
        bus, slot, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 0x7
        address = f"{facts.get('domain', 0):04x}:{bus:02x}:{slot:02x}.{function}"
        yield KfdNode(address, version, read_number(path.with_name("gpu_id")))


def read_sensor(device: Path, *files: str) -> int | None:
    """Return the value of the first sensor that a card has.

    Args:
        device: Directory of the card's device in ``/sys``.
        files: Names of the sensors in ``hwmon``, such as ``temp1_input``.
    """
    for file in files:
        for path in sorted(device.glob(f"hwmon/hwmon*/{file}")):
            number = read_number(path)
            if number is not None:
                return number
    return None


def count_ras_errors(device: Path) -> tuple[int | None, int | None]:
    """Return the uncorrected and corrected errors of all parts of a card."""
    uncorrected, corrected = [], []
    for path in device.glob("ras/*_err_count"):
        text = text_of(path) or ""
        uncorrected += [int(number) for number in re.findall(r"^ue: (\d+)$", text, re.MULTILINE)]
        corrected += [int(number) for number in re.findall(r"^ce: (\d+)$", text, re.MULTILINE)]
    return sum(uncorrected) if uncorrected else None, sum(corrected) if corrected else None


def read_number(path: Path) -> int | None:
    """Return the number in a file; None if there is none."""
    text = text_of(path)
    return int(text) if text and text.isdecimal() else None


def text_of(path: Path) -> str | None:
    """Return the text of a file; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
