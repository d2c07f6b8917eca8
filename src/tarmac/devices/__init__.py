"""Devices: what is here to compute on.

Example:
    >>> from tarmac.devices import find_devices
    >>> [device.torch_name for device in find_devices("cpu:2")]
    ['cpu', 'cpu']
"""

from tarmac.devices._device import Device, find_devices, name_devices, read_cpuinfo
from tarmac.devices._gpus import GpuInfo, list_gpus

__all__ = ["Device", "GpuInfo", "find_devices", "list_gpus", "name_devices", "read_cpuinfo"]
