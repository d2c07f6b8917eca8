"""Devices: what is here to compute on.

Example:
    >>> from tarmac.devices import find_device
    >>> find_device("cpu").torch_name
    'cpu'
"""

from tarmac.devices._device import Device, find_device

__all__ = ["Device", "find_device"]
