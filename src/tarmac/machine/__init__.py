"""Devices: what is here to compute on.

Example:
    >>> from tarmac.machine import find_devices
    >>> [device.torch_name for device in find_devices("cpu:2")]
    ['cpu', 'cpu']
"""

from tarmac.machine.device import Device, find_devices, name_devices, read_cpuinfo
from tarmac.machine.gpus import GpuInfo, list_gpus
from tarmac.machine.limits import ProcessLimits, is_unified, own_groups, read_limits

__all__ = [
    "Device",
    "GpuInfo",
    "ProcessLimits",
    "find_devices",
    "is_unified",
    "list_gpus",
    "name_devices",
    "own_groups",
    "read_cpuinfo",
    "read_limits",
]
