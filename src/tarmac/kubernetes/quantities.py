"""Quantities in Kubernetes' notation, and the resource names of GPUs."""

from __future__ import annotations

import re

# The notation of apimachinery, resource/quantity.go.
_QUANTITY = re.compile(r"^([+-]?[0-9.]+)(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)$")
_SUFFIXES = {
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}


def quantity(written: object) -> float:
    """Parse a quantity in Kubernetes' notation; return 0 for any other text.

    Example:
        >>> quantity("1500m"), quantity("2Ki")
        (1.5, 2048.0)
    """
    match = _QUANTITY.match(str(written))
    if match is None:
        return 0.0
    value, exponent, suffix = match.groups()
    return float(value) * (10.0 ** int(exponent) if exponent else _SUFFIXES.get(suffix, 1))


def is_gpu(resource: str) -> bool:
    """Whether a resource name of NVIDIA, AMD or Intel stands for GPUs or MIG instances."""
    vendor, _, name = resource.partition("/")
    if vendor in ("nvidia.com", "amd.com"):
        return name == "gpu" or name.startswith("mig-")
    return vendor == "gpu.intel.com"
