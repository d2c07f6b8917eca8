"""A training step as a CUDA graph: recorded once, then replayed by one launch instead of dozens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GraphedStep"]

# PyTorch's notes on CUDA graphs ask for a few steps on a side stream first, for lazy allocations.
_NUM_WARMUP_STEPS = 3


class GraphedStep:
    """Calls a step eagerly for its first times, then by replaying a graph of it.

    The warm-up steps are steps of the training like any other, so nothing has to be undone. A step
    that cannot be recorded, because its model reads a value back or so, stays eager.

    Args:
        step: Takes the indices of a batch, int64 ``[batch]`` on the device, and reads and writes
            nothing but tensors that stay where they are.
        batch_size: The size that is recorded. Others, such as an epoch's last batch, run eagerly.
        device: The CUDA device.
    """

    def __init__(
        self, step: Callable[[torch.Tensor], None], batch_size: int, device: torch.device
    ) -> None:
        self._step = step
        self._index = torch.zeros(batch_size, dtype=torch.int64, device=device)
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # PyTorch has no type
        self._graph: torch.cuda.CUDAGraph | None = None
        self._num_warm = 0
        self._can_record = True

    def __call__(self, index: torch.Tensor) -> None:
        """Do one step."""
        if len(index) != len(self._index) or not self._can_record:
            self._step(index)
        elif self._graph is not None:
            self._index.copy_(index)
            self._graph.replay()
        elif self._num_warm < _NUM_WARMUP_STEPS:
            self._num_warm += 1
            self._side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._side):
                self._step(index)
            torch.cuda.current_stream().wait_stream(self._side)
        else:
            self._index.copy_(index)
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph):
                    self._step(self._index)
            except RuntimeError:
                self._can_record = False
                self._step(index)
            else:
                self._graph = graph
                graph.replay()
