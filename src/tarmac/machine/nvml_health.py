"""A GPU's health as the driver reports it: faults, limits, and required actions.

Drivers and bindings differ in the values that they support, so all values here may be None or
empty, which is neither good nor bad. Some fields are numbers here, because older bindings have no
name for them. NVIDIA never gives a field's number to another field
(https://docs.nvidia.com/deploy/nvml-api/, field identifiers).
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pynvml

from tarmac.machine.gpu import Fabric
from tarmac.machine.nvml_calls import ask, ask_fields, watts

_RECOVERY_ACTION = 230

# nvmlDeviceGpuRecoveryAction_t. Bindings disagree about 5: to recover the IMEX domain, or the bus.
_RECOVERY = {
    0: "none",
    1: "reset",
    2: "reboot",
    3: "drain P2P",
    4: "drain and reset",
    6: "bus reset",
    7: "reboot",
}

# CUDA opens this device, the driver's management library does not.
_CUDA_NODE = "/dev/nvidia-uvm"
_LARGE_BYTES = 2**29

# Totals of all links, before Hopper. Since Hopper each link has counters, queried by its number.
_LINK_TOTALS = {
    "crc": (
        pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
        pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
    ),
    "replay": (pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,),
    "recovery": (pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,),
}
_LINK_COUNTS = {
    "crc": (pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC,),
    "replay": (pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY,),
    # On Hopper, and since Blackwell.
    "recovery": (
        pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
        pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS,
    ),
}

_FABRIC_STATES = {1: "not started", 2: "in progress", 3: "completed"}

# nvmlGpuFabricInfo_v2_t.healthMask: two bits each, 1 means yes.
_FABRIC_TROUBLES = {
    0: "degraded bandwidth",
    2: "route recovery in progress",
    4: "route unhealthy",
    6: "recovery from access timeouts in progress",
}
# Four bits: 1 means a correct configuration, 2 and above name what is wrong.
_FABRIC_CONFIGURATION = 8
_MISCONFIGURED = 2


class _FabricInfo(ctypes.Structure):
    """``nvmlGpuFabricInfo_v2_t``, in which older bindings have a field of another size."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("cluster", ctypes.c_uint8 * 16),
        ("status", ctypes.c_uint32),
        ("clique", ctypes.c_uint32),
        ("state", ctypes.c_uint8),
        ("health_mask", ctypes.c_uint32),
    )


# The structure's size, and its version in the upper byte.
_FABRIC_VERSION = ctypes.sizeof(_FabricInfo) | 2 << 24

_VIRTUALIZATION = {
    pynvml.NVML_GPU_VIRTUALIZATION_MODE_NONE: "none",
    pynvml.NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH: "passthrough",
    pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU: "vgpu",
    pynvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU: "vgpu host",
    pynvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA: "vsga host",
}


def read_health(handle: Any, num_links: int) -> dict[str, Any]:
    """Return the fields of `Gpu` that describe its health.

    Args:
        handle: NVML handle of the GPU.
        num_links: Number of NVLinks of the GPU.
    """
    totals = [field for fields in _LINK_TOTALS.values() for field in fields]
    counts = [key for name in _LINK_COUNTS for key in _keys_of_links(name, num_links)]
    fields = ask_fields(
        handle,
        [_RECOVERY_ACTION, pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, *totals, *counts],
    )
    action = fields.get(_RECOVERY_ACTION)
    virtualization = _VIRTUALIZATION.get(ask(pynvml.nvmlDeviceGetVirtualizationMode, handle))
    return {
        "recovery_action": None if action is None else _RECOVERY.get(action, f"action {action}"),
        "pcie_replays": fields.get(pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER),
        "nvlink_errors": _link_errors(fields, num_links),
        "fabric": _read_fabric(handle),
        "sram_threshold_exceeded": _read_sram(handle),
        "inforom_valid": _read_inforom(handle),
        "temperature_limits_c": _read_limits(handle),
        "default_power_watts": watts(ask(pynvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)),
        "application_clocks_mhz": _read_application_clocks(handle),
        "vbios": ask(pynvml.nvmlDeviceGetVbiosVersion, handle),
        "board": _read_board(handle),
        "virtualization": virtualization,
        "licensed": _read_licence(handle) if virtualization == "vgpu" else None,
        "unseen_bytes": _read_unseen(handle),
    }


def _keys_of_links(name: str, num_links: int) -> list[tuple[int, int]]:
    return [(field, link) for field in _LINK_COUNTS[name] for link in range(num_links)]


def _link_errors(fields: dict[Any, Any], num_links: int) -> dict[str, int]:
    errors = {}
    for name, totals in _LINK_TOTALS.items():
        values = [fields[key] for key in _keys_of_links(name, num_links) if key in fields]
        values = values or [fields[key] for key in totals if key in fields]
        if values:
            errors[name] = int(sum(values))
    return errors


def _read_fabric(handle: Any) -> Fabric | None:
    info = _FabricInfo(version=_FABRIC_VERSION)
    if ask(pynvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(info)) is None:
        return None
    state = _FABRIC_STATES.get(info.state)
    if state is None:
        return None
    mask = info.health_mask
    troubles = [name for shift, name in _FABRIC_TROUBLES.items() if mask >> shift & 0b11 == 1]
    if mask >> _FABRIC_CONFIGURATION & 0b1111 >= _MISCONFIGURED:
        troubles.append("incorrect configuration")
    return Fabric(state=state, status=info.status, troubles=tuple(troubles))


def _read_sram(handle: Any) -> bool | None:
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    if ask(pynvml.nvmlDeviceGetSramEccErrorStatus, handle, ctypes.byref(status)) is None:
        return None
    return bool(status.bThresholdExceeded)


def _read_inforom(handle: Any) -> bool | None:
    try:
        pynvml.nvmlDeviceValidateInforom(handle)
    except pynvml.NVMLError_CorruptedInforom:
        return False
    except pynvml.NVMLError:
        return None
    return True


def _read_limits(handle: Any) -> dict[str, int]:
    kinds = {
        "operating": pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX,
        "memory": pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX,
        "slowdown": pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,
        "shutdown": pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN,
    }
    limits = {
        name: ask(pynvml.nvmlDeviceGetTemperatureThreshold, handle, kind)
        for name, kind in kinds.items()
    }
    # Cards without such a threshold return 0.
    return {name: degrees for name, degrees in limits.items() if degrees}


def _read_application_clocks(handle: Any) -> dict[str, int]:
    clocks = {
        "now": ask(pynvml.nvmlDeviceGetApplicationsClock, handle, pynvml.NVML_CLOCK_SM),
        "default": ask(pynvml.nvmlDeviceGetDefaultApplicationsClock, handle, pynvml.NVML_CLOCK_SM),
    }
    return {name: clock for name, clock in clocks.items() if clock}


def _read_board(handle: Any) -> str | None:
    pci = ask(pynvml.nvmlDeviceGetPciInfo, handle)
    return f"{pci.pciSubSystemId:#010x}" if pci is not None and pci.pciSubSystemId else None


def _read_licence(handle: Any) -> bool | None:
    licence = ask(pynvml.nvmlDeviceGetGridLicensableFeatures_v4, handle)
    if licence is None or not licence.isGridLicenseSupported:
        return None
    features = licence.gridLicensableFeatures[: licence.licensableFeaturesCount]
    return any(bool(feature.featureState) for feature in features) if features else None


def _read_unseen(handle: Any) -> int | None:
    """Return the bytes in use that no listed process holds; None if unknown."""
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    if memory is None:
        return None
    held: dict[int, int | None] = {}
    for kind in ("Compute", "Graphics", "MPSCompute"):
        running = ask(getattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses_v3"), handle)
        # Processes of the missing list may hold the memory.
        if running is None and kind != "MPSCompute":
            return None
        held |= {process.pid: process.usedGpuMemory for process in running or ()}
    if None in held.values():
        return None
    unseen = max(0, int(memory.used) - sum(filter(None, held.values())))
    # A CUDA process of this container that is not listed, or whose PID differs for the driver, may
    # hold the memory. Reading all processes takes long, so only large amounts are checked.
    if unseen >= _LARGE_BYTES and users_of(_CUDA_NODE) - held.keys():
        return None
    return unseen


def users_of(path: str) -> set[int]:
    """Return the PIDs of processes that have a file open and that this user may inspect."""
    users = set()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            is_it = str(descriptor.readlink()) == path
        except OSError:
            continue
        if is_it:
            users.add(int(descriptor.parts[2]))
    return users
