"""How samples get to a device: they lie there, are sent ahead, or are sent when needed.

All three give the same samples in the same order; they differ in memory and in time alone.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from tarmac.data import Subset
from tarmac.training.engine.columns import Arrangement, overlaps, put_on, rows_of, view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from tarmac.data import Column
    from tarmac.training.plan import FeedName

    Spans = Sequence[tuple[int, int]]

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
            order: int64 ``[num_samples]`` on the CPU: the epoch's order of the samples that are
                trained on, which count from 0.
            spans: Where each micro-batch starts and stops in it.
        """
        ...

    def samples(self, *handed: torch.Tensor) -> tuple[Any, Any]:
        """Turn what was handed over into inputs and targets on the device, as the split has them.

        They are tensors, or dictionaries of such; targets are None where there are none.
        """
        ...

    def weights(self, *handed: torch.Tensor) -> torch.Tensor | None:
        """Return the weights ``[batch]`` of what was handed over; None where each counts once."""
        ...

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return what `samples` takes for so many samples of any kind, to try a step on."""
        ...


class Resident:
    """All samples lie on the device; a batch is gathered there, by index.

    On a CPU the dataset's own arrays serve, without a copy; a GPU holds those that are trained on
    alone, but for overlapping windows, which are never taken apart.

    Args:
        samples: Training samples to put on the device.
        device: Device that holds the samples.

    Attributes:
        columns: On the device, a tensor ``[num_samples, ...]`` for each of `Split.columns`.
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
        """Return the index of the first sample, again and again."""
        return (torch.zeros(num_samples, dtype=torch.int64, device=self._device),)


class Direct:
    """The host gathers a batch and sends it when the step asks for it.

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
        """Gather and send one batch after another."""
        indices = _mapped(order, self._rows).numpy()
        for start, stop in spans:
            index = indices[start:stop]
            yield tuple(
                torch.from_numpy(_gathered(column, index)).to(self._device)
                for column in self._columns
            )

    def samples(self, *handed: torch.Tensor) -> tuple[Any, Any]:
        """Return what was handed over."""
        return self._arrangement.batch(handed)

    def weights(self, *handed: torch.Tensor) -> torch.Tensor | None:
        """Return the weights among what was handed over."""
        return self._arrangement.weights(handed)

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return samples of nothing but zeros."""
        return _zeros(self._columns, num_samples, self._device)


class Prefetch:
    """Threads gather the next batches into pinned memory while the device computes.

    No more than a few batches wait at a time, so that memory is bounded whatever the data's size.

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
        # One more than wait, for the batch that the device computes on.
        self._slots = [_Slot(self._columns, batch_size, pinned=on_cuda) for _ in range(_DEPTH + 1)]
        self._copies = torch.cuda.Stream(device) if on_cuda else None  # type: ignore[no-untyped-call]

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield batches that were gathered, and on a GPU sent, while others were computed on."""
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
        """Return what was handed over."""
        return self._arrangement.batch(handed)

    def weights(self, *handed: torch.Tensor) -> torch.Tensor | None:
        """Return the weights among what was handed over."""
        return self._arrangement.weights(handed)

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return samples of nothing but zeros."""
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
            # The thread that waits for it sleeps, where another event would keep a core busy.
            self._sent = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # PyTorch has no type
            self._sent.record(copies)
        current.wait_stream(copies)
        for tensor in sent:
            tensor.record_stream(current)
        return sent


def open_feed(name: FeedName, samples: Subset, batch_size: int, device: torch.device) -> Feed:
    """Make a feed of samples, for micro-batches up to a size."""
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
    """Return the rows that positions stand for; None where they are the positions themselves."""
    rows = samples.rows
    return None if isinstance(rows, range) and rows.start == 0 else rows_tensor(samples)


def _mapped(order: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
    return order if rows is None else rows[order]


def _gathered(column: Column, index: NDArray[np.int64]) -> Column:
    """Copy samples out of a column: of strided windows `np.take` would copy all before."""
    return np.take(column, index, axis=0) if column.flags.c_contiguous else column[index]


def _gather(column: Column, index: NDArray[np.int64], out: Column) -> None:
    """Copy samples out of a column to where they are wanted."""
    if column.flags.c_contiguous:
        # NumPy checks indices in a second buffer unless told what to do with wrong ones.
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
