"""Sequences of launches as CUDA graphs: recorded once, then replayed by one launch."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["Recordings"]


class Recordings:
    """Plays sequences of launches, each eagerly at first, then recorded, then replayed.

    The first time is part of the training like any other; it loads kernels and allocates what a
    recording must not.

    Args:
        device: The CUDA device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side = _side_stream(device)
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph | None] = {}
        # Nothing outlives a replay but what was allocated before, so all may share their memory.
        self._pool = torch.cuda.graph_pool_handle()

    def play(self, name: Hashable, launches: Callable[[], None]) -> None:
        """Play a sequence.

        Args:
            name: Of the sequence: the same launches have the same.
            launches: Submits them; reads and writes nothing but tensors that stay where they are,
                and reads nothing back.
        """
        if name not in self._graphs:
            self._graphs[name] = None
            current = torch.cuda.current_stream(self._device)
            self._side.wait_stream(current)
            with torch.cuda.stream(self._side):
                launches()
            current.wait_stream(self._side)
            return
        graph = self._graphs[name]
        if graph is None:
            graph = self._graphs[name] = torch.cuda.CUDAGraph()
            # Of this thread alone: another may be drawing the next epoch into pinned memory.
            with torch.cuda.graph(
                graph, pool=self._pool, stream=self._side, capture_error_mode="thread_local"
            ):
                launches()
        graph.replay()


@functools.cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the one stream that a device's recordings are made on.

    PyTorch keeps a workspace of cuBLAS for every stream that ever multiplied, 32 MiB on an H100.
    """
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # PyTorch has no type
