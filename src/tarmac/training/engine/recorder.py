"""Calls recorded as CUDA graphs, then replayed by one launch instead of dozens.

A recording that fails part-way leaks memory in PyTorch (pytorch/pytorch#180395 for 2.11 and 2.12).
So every call is first checked without recording, and a call that waits for the device is never
recorded.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial
from typing import Any, Protocol

import torch

from tarmac.errors import PeerFailed

# PyTorch's notes on CUDA graphs ask for a few calls on a side stream first, for lazy allocations.
_NUM_WARM_UP_CALLS = 3

# Number of calls of one kind until a `Graphed` replays it.
NUM_CALLS_UNTIL_RECORDED = _NUM_WARM_UP_CALLS + 1

# A step has one or two sizes of micro-batches, in full and in the last batch. Each size has a graph
# that sets gradients and one that adds them.
_MAX_GRAPHS = 8

# PyTorch's warning in the debug mode for synchronization.
_SYNCHRONISED = "called a synchronizing CUDA operation"


class Recorder(Protocol):
    """An interface that records calls by key, and replays them."""

    @property
    def can_record(self) -> bool:
        """Whether recording is still possible."""
        ...

    def warm_up(self, body: Callable[[], None]) -> None:
        """Call ``body`` until everything it needs is loaded, and check whether it can be recorded.

        The check is whether a call waits for the device.
        """
        ...

    def record(self, key: Hashable, body: Callable[[], None]) -> None:
        """Record a call without its effects, if that is possible.

        Args:
            key: Key that `replay` takes to replay the recorded call.
            body: Function that reads and writes only tensors with fixed addresses.
        """
        ...

    def replay(self, key: Hashable) -> bool:
        """Replay a call, and return whether it was recorded."""
        ...

    def forget(self) -> None:
        """Drop all recordings, and stop recording."""
        ...


class GraphRecorder:
    """A recorder of CUDA graphs that share their memory, so no two may run at the same time.

    Args:
        device: CUDA device of all calls.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side = _side_stream(device.index)
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._can_record = True

    @property
    def can_record(self) -> bool:
        """Whether no call has waited for the device, and no recording has failed."""
        return self._can_record

    def warm_up(self, body: Callable[[], None]) -> None:
        """Call ``body`` a few times on the side stream, and check the last call."""
        for _ in range(1, _NUM_WARM_UP_CALLS):
            self.call(body)
        self.call(body, watched=True)

    def call(self, body: Callable[[], None], *, watched: bool = False) -> None:
        """Call ``body`` on the recording stream; ``watched`` checks whether it waits."""
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream(self._device)
            self._side.wait_stream(current)
            with torch.cuda.stream(self._side):
                if not watched:
                    body()
                elif _synchronises(body):
                    self._can_record = False
            current.wait_stream(self._side)

    def record(self, key: Hashable, body: Callable[[], None]) -> None:
        """Record ``body`` as a graph; a failure raises no error but ends all recording."""
        if not self._can_record or key in self._graphs:
            return
        with torch.cuda.device(self._device):
            graph = torch.cuda.CUDAGraph()
            current = torch.cuda.current_stream(self._device)
            generator = torch.cuda.default_generators[self._device.index]
            draws = generator.clone_state()
            # Capture only this thread: other threads wait for copies of batches or messages.
            recording = torch.cuda.graph(
                graph, self._pool, self._side, capture_error_mode="thread_local"
            )
            try:
                with recording:
                    body()
            except (RuntimeError, PeerFailed):
                # An all-reduce that cannot be recorded looks like a lost message. PyTorch leaves
                # the stream and the generator in their recording states.
                torch.cuda.set_stream(current)
                generator.graphsafe_set_state(draws)
                self._can_record = False
            else:
                self._graphs[key] = graph

    def replay(self, key: Hashable) -> bool:
        """Launch the graph of ``key``, if there is one."""
        graph = self._graphs.get(key)
        if graph is None:
            return False
        with torch.cuda.device(self._device):
            graph.replay()
        return True

    def forget(self) -> None:
        """Drop all graphs, and stop recording."""
        self._graphs.clear()
        self._can_record = False


class Graphed:
    """A function that runs eagerly for its first calls, then by replaying a graph.

    Each kind of call, with its own shapes and constants, has a graph of its own. A kind that cannot
    be recorded stays eager.

    Args:
        function: Function of tensors on the device and constants. Otherwise it reads and writes
            only tensors with fixed addresses.
        device: CUDA device on which the function runs.
    """

    def __init__(self, function: Callable[..., None], device: torch.device) -> None:
        self._function = function
        self._recorder = GraphRecorder(device)
        self._num_calls: Counter[Hashable] = Counter()
        self._inputs: dict[Hashable, tuple[torch.Tensor, ...]] = {}

    def __call__(self, *arguments: Any, **constants: Hashable) -> None:
        """Call the function."""
        kinds = (value.shape if isinstance(value, torch.Tensor) else value for value in arguments)
        key = (*kinds, *sorted(constants.items()))
        if key in self._inputs:
            for kept, argument in zip(self._inputs[key], _tensors(arguments), strict=True):
                kept.copy_(argument)
            self._recorder.replay(key)
            return
        number = self._num_calls[key]
        if not self._recorder.can_record or len(self._inputs) == _MAX_GRAPHS:
            self._function(*arguments, **constants)
        elif number < _NUM_WARM_UP_CALLS:
            self._num_calls[key] += 1
            is_last = number == _NUM_WARM_UP_CALLS - 1
            self._recorder.call(partial(self._function, *arguments, **constants), watched=is_last)
        else:
            static = [v.clone() if isinstance(v, torch.Tensor) else v for v in arguments]
            self._recorder.record(key, partial(self._function, *static, **constants))
            if self._recorder.replay(key):
                self._inputs[key] = _tensors(static)
            else:
                self._function(*arguments, **constants)


@cache
def _side_stream(device_index: int) -> torch.cuda.Stream:
    """Return the stream that all recordings of a device share.

    cuBLAS keeps some 32 MiB for every stream that it has computed on, until the process ends.
    """
    return torch.cuda.Stream(device_index)  # type: ignore[no-untyped-call]  # PyTorch has no type


def _tensors(arguments: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    return tuple(value for value in arguments if isinstance(value, torch.Tensor))


def _synchronises(body: Callable[[], None]) -> bool:
    """Call ``body`` and return whether it waited for the device, such as to read a value."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            body()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    return any(_SYNCHRONISED in str(warning.message) for warning in caught)
