"""Counts of the stand-in, as they grow; see the enumeration in ``libraries/cudart.c``."""

from __future__ import annotations

import ctypes
import dataclasses

_NUM_COUNTS = 12


@dataclasses.dataclass(frozen=True)
class Counts:
    """What was asked of all pretended GPUs, by this process, since it began.

    Attributes:
        kernels: Launched one by one.
        copies: Submitted one by one.
        fills: Likewise.
        replays: Of graphs.
        replayed_nodes: Of all replayed graphs together.
        captures: Begun.
        broken_captures: Ended without a graph.
        synchronisations: Of the host with a stream or a device.
        event_waits: Of the host for an event.
        allocations: Of device memory, by the runtime.
        live_graphs: That could be replayed now.
        live_bytes: Of device memory, held of the runtime now.
    """

    kernels: int
    copies: int
    fills: int
    replays: int
    replayed_nodes: int
    captures: int
    broken_captures: int
    synchronisations: int
    event_waits: int
    allocations: int
    live_graphs: int
    live_bytes: int

    @property
    def submissions(self) -> int:
        """What the host had to send: a graph is one, whatever is in it."""
        return self.kernels + self.copies + self.fills + self.replays

    @property
    def operations(self) -> int:
        """What the devices had to do, one after another."""
        return self.kernels + self.copies + self.fills + self.replayed_nodes

    def since(self, before: Counts) -> Counts:
        """Return by how much each grew."""
        names = (field.name for field in dataclasses.fields(self))
        return Counts(**{name: getattr(self, name) - getattr(before, name) for name in names})


def read_counts() -> Counts:
    """Return the counts now."""
    into = (ctypes.c_uint64 * _NUM_COUNTS)()
    ctypes.CDLL("libcudart.so.13").stand_in_counts(into)
    return Counts(*into)
