"""Feeds bring samples to a device: resident there, prefetched, or sent when needed.

All three yield the same samples in the same order. They differ only in memory and time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from tarmac.data import Column, Subset
from tarmac.training.engine.columns import Arrangement, overlaps, put_on, rows_of, view
from tarmac.training.plan import FeedName

if TYPE_CHECKING:
    Spans = Sequence[tuple[int, int]]

# Number of batches that wait for the device, and of threads that gather them. One thread gathers
# while another waits for a page of the file.
_DEPTH = 4
_NUM_THREADS = 2


class Feed(Protocol):
    """An interface that yields an epoch's micro-batches."""

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield, for each span of ``order``, tensors on the device for `samples`.

        The tensors are valid until the next request.

        Args:
            order: The epoch's order, int64 ``[num_samples]`` on the CPU: indices among the training
                samples, from 0.
            spans: Start and end of each micro-batch in ``order``.
        """
        ...

    def samples(self, *handed: torch.Tensor) -> tuple[Any, Any]:
        """Return the inputs and targets of a batch from `batches`, on the device.

        They have the split's form: tensors, or dictionaries of tensors. Targets may be None.
        """
        ...

    def weights(self, *handed: torch.Tensor) -> torch.Tensor | None:
        """Return a batch's weights ``[batch]``; None if the samples have no weights."""
        ...

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return a batch of any samples for `samples`, to try a step on."""
        ...


class Resident:
    """A feed whose samples are all on the device, which gathers each batch by index.

    On a CPU the feed uses the dataset's own arrays without a copy. A GPU holds only the training
    samples, but arrays of overlapping windows are sent whole.

    Args:
        samples: Training samples to put on the device.
        device: Device that holds the samples.

    Attributes:
        columns: A tensor ``[num_samples, ...]`` on the device for each of `Split.columns`.
    """

    def __init__(self, samples: Subset, device: torch.device) -> None:
        split = samples.split
        is_shared = device.type == "cpu" or any(map(overlaps, split.columns.values()))
        self._rows = _rows_of(samples) if is_shared else None
        self.columns = put_on(device, samples if self._rows is None else Subset.whole(split))
        self._arrangement = Arrangement(split)
        self._device = device

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield the indices of each batch."""
        there = _mapped(order, self._rows).to(self._device)
        for start, stop in spans:
            yield (there[start:stop],)

    def samples(self, *handed: torch.Tensor) -> tuple[Any, Any]:
        """Gather the samples."""
        (index,) = handed
        return self._arrangement.batch([rows_of(column, index) for column in self.columns])

    def weights(self, *handed: torch.Tensor) -> torch.Tensor | None:
        """Gather the weights."""
        if not self._arrangement.is_weighted:
            return None
        return self.columns[-1].index_select(0, handed[0])

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return the index of the first sample, repeated."""
        return (torch.zeros(num_samples, dtype=torch.int64, device=self._device),)


class Direct:
    """A feed for which the host gathers and sends each batch when the step needs it.

    Args:
        samples: Training samples; may be in a memory-mapped file.
        device: Device that receives the batches.
    """

    def __init__(self, samples: Subset, device: torch.device) -> None:
        self._columns = tuple(samples.split.columns.values())
        self._rows = _rows_of(samples)
        self._arrangement = Arrangement(samples.split)
        self._device = device

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Gather and send the batches, one at a time."""
        indices = _mapped(order, self._rows).numpy()
        for start, stop in spans:
            index = indices[start:stop]
            yield tuple(
                torch.from_numpy(_gathered(column, index)).to(self._device)
                for column in self._columns
            )

    def samples(self, *handed: torch.Tensor) -> tuple[Any, Any]:
        """Return the batch as inputs and targets."""
        return self._arrangement.batch(handed)

    def weights(self, *handed: torch.Tensor) -> torch.Tensor | None:
        """Return the weights in the batch."""
        return self._arrangement.weights(handed)

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return a batch of zeros."""
        return _zeros(self._columns, num_samples, self._device)


class Prefetch:
    """A feed whose threads gather the next batches into pinned memory while the device computes.

    Only a few batches wait at a time, so the memory is bounded whatever the data's size.

    Args:
        samples: Training samples; may be in a memory-mapped file.
        batch_size: Samples in the largest micro-batch; sets the size of the buffers.
        device: Device that receives the batches.
    """

    def __init__(self, samples: Subset, batch_size: int, device: torch.device) -> None:
        self._columns = tuple(samples.split.columns.values())
        self._rows = _rows_of(samples)
        self._arrangement = Arrangement(samples.split)
        self._device = device
        on_cuda = device.type == "cuda"
        # One more slot than waiting batches, for the batch that the device computes on.
        self._slots = [_Slot(self._columns, batch_size, pinned=on_cuda) for _ in range(_DEPTH + 1)]
        self._copies = torch.cuda.Stream(device) if on_cuda else None  # type: ignore[no-untyped-call]

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield batches that were gathered, and on a GPU sent, during earlier computation."""
        indices = _mapped(order, self._rows).numpy()
        with ThreadPoolExecutor(_NUM_THREADS, "tarmac-prefetch") as threads:
            gathered = deque(
                (slot, threads.submit(slot.gather, self._columns, indices[start:stop]))
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
                        (free, threads.submit(free.gather, self._columns, indices[start:stop]))
                    )
                yield slot.send(size, self._device, self._copies)

    def samples(self, *handed: torch.Tensor) -> tuple[Any, Any]:
        """Return the batch as inputs and targets."""
        return self._arrangement.batch(handed)

    def weights(self, *handed: torch.Tensor) -> torch.Tensor | None:
        """Return the weights in the batch."""
        return self._arrangement.weights(handed)

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return a batch of zeros."""
        return _zeros(self._columns, num_samples, self._device)


class _Slot:
    """Host memory for one batch."""

    def __init__(self, columns: Sequence[Column], batch_size: int, *, pinned: bool) -> None:
        self._tensors = tuple(
            torch.empty(
                (batch_size, *column.shape[1:]), dtype=view(column[:0]).dtype, pin_memory=pinned
            )
            for column in columns
        )
        self._sent: torch.cuda.Event | None = None

    def gather(self, columns: Sequence[Column], index: NDArray[np.int64]) -> int:
        if self._sent is not None:
            self._sent.synchronize()
        size = len(index)
        for column, tensor in zip(columns, self._tensors, strict=True):
            _gather(column, index, tensor[:size].numpy())
        return size

    def send(
        self, size: int, device: torch.device, copies: torch.cuda.Stream | None
    ) -> tuple[torch.Tensor, ...]:
        gathered = tuple(tensor[:size] for tensor in self._tensors)
        if copies is None:
            return gathered
        current = torch.cuda.current_stream(device)
        with torch.cuda.stream(copies):
            sent = tuple(tensor.to(device, non_blocking=True) for tensor in gathered)
            # A blocking event lets the waiting thread sleep; others keep a core busy.
            self._sent = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # PyTorch has no type
            self._sent.record(copies)
        current.wait_stream(copies)
        for tensor in sent:
            tensor.record_stream(current)
        return sent


def open_feed(name: FeedName, samples: Subset, batch_size: int, device: torch.device) -> Feed:
    """Return a feed of samples, for micro-batches up to a size."""
    match name:
        case "resident":
            return Resident(samples, device)
        case "prefetch":
            return Prefetch(samples, batch_size, device)
        case _:
            return Direct(samples, device)


def rows_tensor(samples: Subset) -> torch.Tensor:
    """Return the rows of samples in their split, int64 on the CPU."""
    rows = samples.rows
    if isinstance(rows, range):
        return torch.arange(rows.start, rows.stop)
    return torch.from_numpy(rows)


def _rows_of(samples: Subset) -> torch.Tensor | None:
    """Return the rows of the samples; None if they equal the positions."""
    rows = samples.rows
    return None if isinstance(rows, range) and rows.start == 0 else rows_tensor(samples)


def _mapped(order: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
    return order if rows is None else rows[order]


def _gathered(column: Column, index: NDArray[np.int64]) -> Column:
    """Copy samples out of a column; for strided windows `np.take` would copy the whole column."""
    return np.take(column, index, axis=0) if column.flags.c_contiguous else column[index]


def _gather(column: Column, index: NDArray[np.int64], out: Column) -> None:
    """Copy samples out of a column into ``out``."""
    if column.flags.c_contiguous:
        # In its default mode `np.take` copies into a second buffer first, to check the indices.
        np.take(column, index, axis=0, out=out, mode="clip")
    else:
        out[...] = column[index]


def _zeros(
    columns: Sequence[Column], num_samples: int, device: torch.device
) -> tuple[torch.Tensor, ...]:
    return tuple(
        torch.zeros((num_samples, *column.shape[1:]), dtype=view(column[:0]).dtype, device=device)
        for column in columns
    )
