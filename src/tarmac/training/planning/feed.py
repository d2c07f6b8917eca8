"""Chooses how samples get to a device, by rule, and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tarmac.data import Split
    from tarmac.machine import Device
    from tarmac.training.plan import FeedName

__all__ = ["choose_feed"]

# Data may take this share of what is free; the rest is for the model, whose layers' outputs are not
# known beforehand.
_RESIDENT_SHARE = 0.5


def choose_feed(
    request: str, split: Split, num_samples: int, device: Device
) -> tuple[FeedName, str]:
    """Choose how samples get to a device.

    Args:
        request: ``"auto"``, ``"resident"``, ``"prefetch"`` or ``"direct"``.
        split: The samples.
        num_samples: How many of them are trained on.
        device: Where to.

    Returns:
        The feed, and the reason in words.

    Raises:
        RequestError: Another request.
    """
    sample_bytes = split.inputs[:1].nbytes + split.targets[:1].nbytes
    needed, free = num_samples * sample_bytes, device.available_bytes
    arithmetic = (
        f"{num_samples:,} samples of {sample_bytes:,} bytes are {_size(needed)}, "
        f"{device.torch_name} has {_size(free)} free"
    )
    match request:
        case "resident" | "prefetch" | "direct":
            return request, "as asked"
        case "auto" if device.type == "cpu" and not _is_mapped(split.inputs):
            return "resident", f"the data are in memory already: {arithmetic}"
        case "auto" if needed <= _RESIDENT_SHARE * free:
            return "resident", f"the data fit: {arithmetic}"
        case "auto":
            return "prefetch", f"the data take more than half of the memory: {arithmetic}"
        case _:
            raise RequestError(f"feed is {request!r}, expected auto, resident, prefetch or direct")


def _is_mapped(array: NDArray[np.uint8]) -> bool:
    """Whether an array, or what it is a view of, is a memory-mapped file."""
    base: object = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return False


def _size(num_bytes: int) -> str:
    if num_bytes < 2**30:
        return f"{num_bytes / 2**20:.1f} MiB"
    return f"{num_bytes / 2**30:.1f} GiB"
