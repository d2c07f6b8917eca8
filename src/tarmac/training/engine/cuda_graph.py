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
    that cannot be recorded, because its model reads a value back or so, stays eager. So do calls
    with other shapes or another constant than the one recorded, such as an epoch's last batch.

    Args:
        step: Takes a constant and tensors on the device, and reads and writes nothing but tensors
            that stay where they are.
        device: The CUDA device.
    """

    def __init__(self, step: Callable[..., None], device: torch.device) -> None:
        self._step = step
        self._inputs: tuple[torch.Tensor, ...] = ()
        self._key: object = None
        self._device = device
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # PyTorch has no type
        self._graph: torch.cuda.CUDAGraph | None = None
        self._num_warm = 0
        self._can_record = True

    def __call__(self, constant: float, *tensors: torch.Tensor) -> None:
        """Do one step."""
        key = (constant, *(tensor.shape for tensor in tensors))
        if not self._can_record or (self._graph is not None and key != self._key):
            self._step(constant, *tensors)
        elif self._graph is not None:
            self._load(tensors)
            self._graph.replay()
        elif key != self._key or self._num_warm < _NUM_WARMUP_STEPS:
            self._num_warm = self._num_warm + 1 if key == self._key else 1
            self._key = key
            current = torch.cuda.current_stream(self._device)
            self._side.wait_stream(current)
            with torch.cuda.stream(self._side):
                self._step(constant, *tensors)
            current.wait_stream(self._side)
        else:
            self._inputs = tuple(tensor.clone() for tensor in tensors)
            self._graph = self._record(constant)
            if self._graph is not None:
                self._graph.replay()
            else:
                self._can_record = False
                self._inputs = ()
                self._step(constant, *tensors)

    def _record(self, constant: float) -> torch.cuda.CUDAGraph | None:
        """Return a graph of the step, or None where it cannot be recorded."""
        graph = torch.cuda.CUDAGraph()
        current = torch.cuda.current_stream(self._device)
        generator = torch.cuda.default_generators[self._device.index]
        draws = generator.clone_state()
        # Of this thread alone: those that gather the next batches wait for their copies meanwhile.
        recording = torch.cuda.graph(graph, stream=self._side, capture_error_mode="thread_local")
        try:
            with recording:
                self._step(constant, *self._inputs)
        except RuntimeError:
            # PyTorch leaves both as they were for recording.
            torch.cuda.set_stream(current)
            generator.graphsafe_set_state(draws)
            return None
        return graph

    def _load(self, tensors: tuple[torch.Tensor, ...]) -> None:
        for static, tensor in zip(self._inputs, tensors, strict=True):
            static.copy_(tensor)
