"""AMD's GPUs as the kernel's files describe them, without ROCm's tools.

The files are those of the driver amdgpu (https://docs.kernel.org/gpu/amdgpu/index.html) and of its
compute part, KFD, which counts all nodes of a machine, CPUs included.

Example:
    >>> gfx_name(90402), gfx_name(90010), gfx_name(110001)
    ('gfx942', 'gfx90a', 'gfx1101')
"""

from __future__ import annotations

import contextlib
import grp
import os
from collections.abc import (
    Iterator,
    Mapping,
)
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tarmac.machine import count_ras_errors, find_kfd_nodes, read_sensor, text_of

# Sensors of hwmon by their number (https://docs.kernel.org/gpu/amdgpu/thermal.html).
_SENSORS = {"temp1_input": "edge", "temp2_input": "junction", "temp3_input": "memory"}


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AmdGpu(_Facts):
    """A GPU that KFD knows.

    Attributes:
        address: PCI address of the GPU, such as ``0000:75:00.0``.
        gfx: Target name that programs are compiled for, such as ``gfx942``.
        temperature_c: Degrees Celsius by sensor: ``edge``, ``junction`` and ``memory``, as far as
            present.
        power_watts: Power in watts: the draw ``now``, and the ``limit`` in force.
        uncorrected_errors: Uncorrected errors of all parts since the driver was loaded; None where
            the driver counts none.
        corrected_errors: Corrected errors since the driver was loaded; None where the driver counts
            none.
    """

    address: str
    gfx: str | None = None
    temperature_c: Mapping[str, int] = {}
    power_watts: Mapping[str, float] = {}
    uncorrected_errors: int | None = None
    corrected_errors: int | None = None


class Amd(_Facts):
    """AMD's GPUs, and the settings that computing on them needs.

    Attributes:
        gpus: All AMD GPUs, in the order of KFD's nodes.
        kfd: ``open`` where this process may use ``/dev/kfd``, ``denied`` where it may not,
            ``absent`` where the device does not exist.
        kfd_group: Name of the group that owns ``/dev/kfd``.
        numa_balancing: Whether the kernel moves memory between NUMA nodes by itself.
    """

    gpus: tuple[AmdGpu, ...] = ()
    kfd: Literal["open", "denied", "absent"] = "absent"
    kfd_group: str | None = None
    numa_balancing: bool | None = None


def gfx_name(version: int) -> str:
    """Return the compilers' target name for a ``gfx_target_version``: ``gfx942`` for 90402."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def read_amd(root: Path = Path("/")) -> Amd:
    """Read the facts about AMD's GPUs.

    Args:
        root: Directory that has ``dev``, ``proc`` and ``sys``; for tests. Default: ``/``.
    """
    kfd = root / "dev/kfd"
    group = None
    with contextlib.suppress(OSError, KeyError):
        group = grp.getgrgid(kfd.stat().st_gid).gr_name
    is_open = os.access(kfd, os.R_OK | os.W_OK)
    balancing = text_of(root / "proc/sys/kernel/numa_balancing")
    return Amd(
        gpus=tuple(_gpus(root)),
        kfd="open" if is_open else "denied" if kfd.exists() else "absent",
        kfd_group=group,
        numa_balancing=None if balancing is None else balancing != "0",
    )


def _gpus(root: Path) -> Iterator[AmdGpu]:
    for node in find_kfd_nodes(root):
        device = root / "sys/bus/pci/devices" / node.address
        uncorrected, corrected = count_ras_errors(device)
        yield AmdGpu(
            address=node.address,
            gfx=gfx_name(node.gfx_version),
            temperature_c={
                name: value // 1000
                for file, name in _SENSORS.items()
                if (value := read_sensor(device, file)) is not None
            },
            power_watts={
                name: value / 1e6
                for name, files in (
                    ("now", ("power1_average", "power1_input")),
                    ("limit", ("power1_cap",)),
                )
                if (value := read_sensor(device, *files)) is not None
            },
            uncorrected_errors=uncorrected,
            corrected_errors=corrected,
        )
