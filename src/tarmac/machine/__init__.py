"""What is here to compute on: GPUs, chips, processors, and how much of them may be used.

The one reading of each: NVML is asked in `nvml`, ``CUDA_VISIBLE_DEVICES`` is read in `visible`,
affinity and control groups in `limits`. What keeps a PyTorch from computing on a GPU is decided in
`obstacles`, and which build of it would suit in `builds`.

Example:
    >>> from tarmac.machine import find_devices
    >>> [device.torch_name for device in find_devices("cpu:2")]
    ['cpu', 'cpu']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.machine.amd_files import (
        KfdNode,
        count_ras_errors,
        find_kfd_nodes,
        read_sensor,
        text_of,
    )
    from tarmac.machine.asking import Asker, NoAnswerError
    from tarmac.machine.builds import (
        RELEASES,
        BuildChoice,
        Capability,
        Releases,
        choose_build,
        is_driver_too_old,
        runs_on,
    )
    from tarmac.machine.chips import Chip, find_chip, read_chips
    from tarmac.machine.device import (
        UNUSABLE,
        Device,
        find_devices,
        name_cpu,
        name_devices,
        name_left_out,
        read_cpuinfo,
        why_on_cpu,
    )
    from tarmac.machine.driver import wake_driver
    from tarmac.machine.gpu import Fabric, Gpu, GpuProcess, MigDevice
    from tarmac.machine.gpu_types import fitting_names, is_of_type
    from tarmac.machine.limits import ProcessLimits, read_limits
    from tarmac.machine.live import LiveGpu, LiveHost, LiveProcess
    from tarmac.machine.live_host import HostReader
    from tarmac.machine.live_reader import LiveReader, open_live_reader
    from tarmac.machine.live_xids import XidSeen
    from tarmac.machine.nvlink import NvlinkPair, read_nvlink_pairs
    from tarmac.machine.nvml import Nvml, open_nvml
    from tarmac.machine.nvml_load import Counters, LoadReader, LoadSample
    from tarmac.machine.nvml_problem import NvmlProblem
    from tarmac.machine.obstacles import (
        CudaBuild,
        Obstacle,
        find_obstacle,
        name_holders,
        why_hidden,
        why_withheld,
    )
    from tarmac.machine.pcie import (
        PciePath,
        PciePort,
        count_nvswitches,
        read_pcie_path,
    )
    from tarmac.machine.peers import lists_peers, owner_of_peer
    from tarmac.machine.surveyed import (
        MOST_NODES,
        NodeFindings,
        group_alike,
        survey_exit_code,
    )
    from tarmac.machine.visible import (
        GpuInfo,
        list_gpus,
        names_nothing,
        newest_cuda,
        read_gpus_in_time,
        visible_gpus,
    )

__all__ = [
    "MOST_NODES",
    "RELEASES",
    "UNUSABLE",
    "Asker",
    "BuildChoice",
    "Capability",
    "Chip",
    "Counters",
    "CudaBuild",
    "Device",
    "Fabric",
    "Gpu",
    "GpuInfo",
    "GpuProcess",
    "HostReader",
    "KfdNode",
    "LiveGpu",
    "LiveHost",
    "LiveProcess",
    "LiveReader",
    "LoadReader",
    "LoadSample",
    "MigDevice",
    "NoAnswerError",
    "NodeFindings",
    "NvlinkPair",
    "Nvml",
    "NvmlProblem",
    "Obstacle",
    "PciePath",
    "PciePort",
    "ProcessLimits",
    "Releases",
    "XidSeen",
    "choose_build",
    "count_nvswitches",
    "count_ras_errors",
    "find_chip",
    "find_devices",
    "find_kfd_nodes",
    "find_obstacle",
    "fitting_names",
    "group_alike",
    "is_driver_too_old",
    "is_of_type",
    "list_gpus",
    "lists_peers",
    "name_cpu",
    "name_devices",
    "name_holders",
    "name_left_out",
    "names_nothing",
    "newest_cuda",
    "open_live_reader",
    "open_nvml",
    "owner_of_peer",
    "read_chips",
    "read_cpuinfo",
    "read_gpus_in_time",
    "read_limits",
    "read_nvlink_pairs",
    "read_pcie_path",
    "read_sensor",
    "runs_on",
    "survey_exit_code",
    "text_of",
    "visible_gpus",
    "wake_driver",
    "why_hidden",
    "why_on_cpu",
    "why_withheld",
]

# Where a name is at home.
_MODULES = {
    "MOST_NODES": "surveyed",
    "RELEASES": "builds",
    "UNUSABLE": "device",
    "Asker": "asking",
    "BuildChoice": "builds",
    "Capability": "builds",
    "Chip": "chips",
    "Counters": "nvml_load",
    "CudaBuild": "obstacles",
    "Device": "device",
    "Fabric": "gpu",
    "Gpu": "gpu",
    "GpuInfo": "visible",
    "GpuProcess": "gpu",
    "HostReader": "live_host",
    "KfdNode": "amd_files",
    "LiveGpu": "live",
    "LiveHost": "live",
    "LiveProcess": "live",
    "LiveReader": "live_reader",
    "LoadReader": "nvml_load",
    "LoadSample": "nvml_load",
    "MigDevice": "gpu",
    "NoAnswerError": "asking",
    "NodeFindings": "surveyed",
    "NvlinkPair": "nvlink",
    "Nvml": "nvml",
    "NvmlProblem": "nvml_problem",
    "Obstacle": "obstacles",
    "PciePath": "pcie",
    "PciePort": "pcie",
    "ProcessLimits": "limits",
    "Releases": "builds",
    "XidSeen": "live_xids",
    "choose_build": "builds",
    "count_nvswitches": "pcie",
    "count_ras_errors": "amd_files",
    "find_chip": "chips",
    "find_devices": "device",
    "find_kfd_nodes": "amd_files",
    "find_obstacle": "obstacles",
    "group_alike": "surveyed",
    "fitting_names": "gpu_types",
    "is_driver_too_old": "builds",
    "is_of_type": "gpu_types",
    "list_gpus": "visible",
    "lists_peers": "peers",
    "name_cpu": "device",
    "name_devices": "device",
    "name_holders": "obstacles",
    "name_left_out": "device",
    "names_nothing": "visible",
    "newest_cuda": "visible",
    "open_live_reader": "live_reader",
    "open_nvml": "nvml",
    "owner_of_peer": "peers",
    "read_chips": "chips",
    "read_cpuinfo": "device",
    "read_gpus_in_time": "visible",
    "read_limits": "limits",
    "read_nvlink_pairs": "nvlink",
    "read_pcie_path": "pcie",
    "read_sensor": "amd_files",
    "runs_on": "builds",
    "survey_exit_code": "surveyed",
    "text_of": "amd_files",
    "visible_gpus": "visible",
    "wake_driver": "driver",
    "why_hidden": "obstacles",
    "why_on_cpu": "device",
    "why_withheld": "obstacles",
}


def __getattr__(name: str) -> object:
    """Import a module when a name of it is first used: who looks at GPUs once needs no models."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
