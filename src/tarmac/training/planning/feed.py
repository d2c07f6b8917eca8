"""Choose the feed that brings samples to a device by rule, and give the reason."""

from __future__ import annotations

import numpy as np

from tarmac.data import Loaded, Split, Subset
from tarmac.errors import RequestError
from tarmac.machine import Device
from tarmac.training.plan import FeedName

# Largest share of the free memory for the data. The model needs the rest, and the size of its
# activations is not known beforehand.
_RESIDENT_SHARE = 0.5


def choose_feed(request: str, samples: Subset, device: Device) -> tuple[FeedName, str]:
    """Choose the feed that brings samples to a device.

    Args:
        request: ``"auto"``, ``"resident"``, ``"prefetch"`` or ``"direct"``; a resumed training may
            request ``"loader"``.
        samples: Training samples to send to the device.
        device: Device that receives the samples.

    Returns:
        The feed, and the reason in words.

    Raises:
        RequestError: The feed is unknown, or does not fit such samples.
    """
    split = samples.split
    if isinstance(split, Loaded):
        if request not in ("auto", "loader"):
            raise RequestError(
                f"feed is {request}, which needs arrays, but {_loader_in_words(split)}",
                hint="Leave --feed out.",
            )
        return "loader", _loader_in_words(split)
    sample_bytes = sum(column[:1].nbytes for column in split.columns.values())
    needed, free = samples.nbytes(), device.available_bytes
    arithmetic = (
        f"{len(samples):,} samples of {sample_bytes:,} bytes are {_size(needed)}, "
        f"{device.torch_name} has {_size(free)} free"
    )
    match request:
        case "resident" | "prefetch" | "direct":
            return request, "as requested"
        case "auto" if device.type == "cpu" and not _is_mapped(split):
            return "resident", f"the data are in memory already: {arithmetic}"
        case "auto" if needed <= _RESIDENT_SHARE * free:
            return "resident", f"the data fit: {arithmetic}"
        case "auto":
            return "prefetch", f"the data take more than half of the memory: {arithmetic}"
        case _:
            raise RequestError(f"feed is {request!r}, expected auto, resident, prefetch or direct")


def _loader_in_words(split: Loaded) -> str:
    loading = split.loading
    workers = f"{loading.num_workers} worker{'s' * (loading.num_workers > 1)}"
    by = f" by {workers}" if loading.num_workers else ""
    text = f"the samples come from {type(loading.loader or loading.dataset).__name__}{by}"
    if not loading.is_stream:
        return f"{text}, in the order of the seed; a resumed run continues exactly there"
    text += ", in its own order; each device reads its part of it"
    if loading.has_state:
        return f"{text}; checkpoints hold its state"
    text += "; a resumed run reads it again up to that point, as it has no state_dict"
    if getattr(loading.loader, "persistent_workers", False):
        text += (
            ", but not bit for bit if its workers draw random numbers, because they persist "
            "(persistent_workers)"
        )
    return text


def _is_mapped(split: Split) -> bool:
    """Return whether an array, or the array that it is a view of, is a memory-mapped file."""
    for column in split.columns.values():
        base: object = column
        # For a strided view NumPy inserts an intermediate object, which has a base too.
        while base is not None:
            if isinstance(base, np.memmap):
                return True
            base = getattr(base, "base", None)
    return False


def _size(num_bytes: int) -> str:
    if num_bytes < 2**30:
        return f"{num_bytes / 2**20:.1f} MiB"
    return f"{num_bytes / 2**30:.1f} GiB"
