"""How samples get to a device: they lie there, are sent ahead, or are sent when needed.

All three give the same samples in the same order; they differ in memory and in time alone.
"""

from __future__ import annotations

import warnings
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from tarmac.data import Split
    from tarmac.training.plan import FeedName

    Spans = Sequence[tuple[int, int]]

__all__ = ["Direct", "Feed", "Prefetch", "Resident", "open_feed"]

# Batches that wait for the device, and threads that gather them: one gathers while another waits
# for a page of the file.
_DEPTH = 4
_NUM_THREADS = 2


class Feed(Protocol):
    """Hands over an epoch's micro-batches."""

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield, for each span of ``order``, tensors on the device that `samples` takes.

        They are good until the next ones are asked for.

        Args:
            order: int64 ``[num_samples]`` on the CPU: the epoch's order.
            spans: Where each micro-batch starts and stops in it.
        """
        ...

    def samples(self, *handed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Turn what was handed over into uint8 inputs and int64 targets on the device."""
        ...

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return what `samples` takes for so many samples of any kind, to try a step on."""
        ...


class Resident:
    """All samples lie on the device; a batch is gathered there, by index.

    On a CPU the dataset's own arrays serve, without a copy.

    Args:
        split: The samples.
        num_samples: How many of them, from the first.
        device: Where they are put.

    Attributes:
        inputs: uint8 ``[num_samples, *sample_shape]`` on the device.
        targets: int64 ``[num_samples]`` on the device.
    """

    def __init__(self, split: Split, num_samples: int, device: torch.device) -> None:
        self.inputs = _tensor(split.inputs[:num_samples]).to(device)
        self.targets = _tensor(split.targets[:num_samples]).to(device)
        self._device = device

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield the indices of each batch."""
        there = order.to(self._device)
        for start, stop in spans:
            yield (there[start:stop],)

    def samples(self, *handed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gather the samples."""
        (index,) = handed
        return self.inputs.index_select(0, index), self.targets.index_select(0, index)

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return the index of the first sample, again and again."""
        return (torch.zeros(num_samples, dtype=torch.int64, device=self._device),)


class Direct:
    """The host gathers a batch and sends it when the step asks for it.

    Args:
        split: The samples; may be a memory-mapped file.
        device: Where they are sent.
    """

    def __init__(self, split: Split, device: torch.device) -> None:
        self._split = split
        self._device = device

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Gather and send one batch after another."""
        indices = order.numpy()
        for start, stop in spans:
            index = indices[start:stop]
            inputs = torch.from_numpy(np.take(self._split.inputs, index, axis=0))
            targets = torch.from_numpy(np.take(self._split.targets, index, axis=0))
            yield inputs.to(self._device), targets.to(self._device)

    def samples(self, *handed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what was handed over."""
        inputs, targets = handed
        return inputs, targets

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return black samples of class 0."""
        return _zeros(self._split, num_samples, self._device)


class Prefetch:
    """Threads gather the next batches into pinned memory while the device computes.

    No more than a few batches wait at a time, so that memory is bounded whatever the data's size.

    Args:
        split: The samples; may be a memory-mapped file.
        batch_size: Of the largest micro-batch.
        device: Where they are sent.
    """

    def __init__(self, split: Split, batch_size: int, device: torch.device) -> None:
        self._split = split
        self._device = device
        on_cuda = device.type == "cuda"
        # One more than wait, for the batch that the device computes on.
        self._slots = [_Slot(split, batch_size, pinned=on_cuda) for _ in range(_DEPTH + 1)]
        self._copies = torch.cuda.Stream(device) if on_cuda else None  # type: ignore[no-untyped-call]

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield batches that were gathered, and on a GPU sent, while others were computed on."""
        indices = order.numpy()
        with ThreadPoolExecutor(_NUM_THREADS, "tarmac-prefetch") as threads:
            gathered = deque(
                (slot, threads.submit(slot.gather, self._split, indices[start:stop]))
                for slot, (start, stop) in zip(self._slots, spans[:_DEPTH], strict=False)
            )
            for number in range(len(spans)):
                slot, future = gathered.popleft()
                size = future.result()
                following = number + _DEPTH
                if following < len(spans):
                    start, stop = spans[following]
                    free = self._slots[following % len(self._slots)]
                    gathered.append(
                        (free, threads.submit(free.gather, self._split, indices[start:stop]))
                    )
                yield slot.send(size, self._device, self._copies)

    def samples(self, *handed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what was handed over."""
        inputs, targets = handed
        return inputs, targets

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return black samples of class 0."""
        return _zeros(self._split, num_samples, self._device)


class _Slot:
    """Host memory for one batch."""

    def __init__(self, split: Split, batch_size: int, *, pinned: bool) -> None:
        shape = (batch_size, *split.inputs.shape[1:])
        self._inputs = torch.empty(shape, dtype=torch.uint8, pin_memory=pinned)
        self._targets = torch.empty(batch_size, dtype=torch.int64, pin_memory=pinned)
        self._sent: torch.cuda.Event | None = None

    def gather(self, split: Split, index: NDArray[np.int64]) -> int:
        if self._sent is not None:
            self._sent.synchronize()
        size = len(index)
        # NumPy checks indices in a second buffer unless told what to do with wrong ones.
        np.take(split.inputs, index, axis=0, out=self._inputs[:size].numpy(), mode="clip")
        np.take(split.targets, index, axis=0, out=self._targets[:size].numpy(), mode="clip")
        return size

    def send(
        self, size: int, device: torch.device, copies: torch.cuda.Stream | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, targets = self._inputs[:size], self._targets[:size]
        if copies is None:
            return inputs, targets
        current = torch.cuda.current_stream(device)
        with torch.cuda.stream(copies):
            sent = (inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True))
            # The thread that waits for it sleeps, where another event would keep a core busy.
            self._sent = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # PyTorch has no type
            self._sent.record(copies)
        current.wait_stream(copies)
        for tensor in sent:
            tensor.record_stream(current)
        return sent


def open_feed(
    name: FeedName, split: Split, num_samples: int, batch_size: int, device: torch.device
) -> Feed:
    """Make a feed of the first ``num_samples`` samples, for micro-batches up to a size."""
    match name:
        case "resident":
            return Resident(split, num_samples, device)
        case "prefetch":
            return Prefetch(split, batch_size, device)
        case "direct":
            return Direct(split, device)


def _zeros(split: Split, num_samples: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    shape = (num_samples, *split.inputs.shape[1:])
    inputs = torch.zeros(shape, dtype=torch.uint8, device=device)
    return inputs, torch.zeros(num_samples, dtype=torch.int64, device=device)


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    """View an array as a tensor that nobody writes to."""
    with warnings.catch_warnings():
        # PyTorch warns of arrays that must not be written to, such as a file mapped for reading.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
