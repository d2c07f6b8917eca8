"""A split's arrays as a tuple of tensors, and the conversion of such a tuple to a batch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tarmac.data import Column, Split, Subset

# PyTorch supports few operations on unsigned integers wider than a byte. The next larger type holds
# all their values, except values of uint64 that no index reaches.
_WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}

# Bytes of a device's samples that the host gathers at a time.
_GATHERED_BYTES = 2**26

# PyTorch cannot gather unsigned types in every shape, so the same bytes are gathered as these.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


class Arrangement:
    """The positions of a batch's parts in a tuple of tensors, one for each of `Split.columns`.

    Args:
        split: Split whose inputs, targets and weights the tensors hold.

    Attributes:
        is_weighted: Whether the last tensor is the samples' weights.
    """

    def __init__(self, split: Split) -> None:
        columns = list(split.columns.values())
        self.is_weighted = split.weights is not None
        self._inputs = _names(split.inputs)
        self._targets = _names(split.targets)
        self._has_targets = split.targets is not None
        self._num_inputs = 1 if self._inputs is None else len(self._inputs)
        dtypes = [view(column[:0]).dtype for column in columns]
        self._widened = {i: _WIDER[dtype] for i, dtype in enumerate(dtypes) if dtype in _WIDER}
        self._is_plain = self._inputs is self._targets is None and not self._widened
        self._is_plain &= self._has_targets

    def batch(self, tensors: Sequence[torch.Tensor]) -> tuple[Any, Any]:
        """Return inputs and targets in the split's form: tensors, dictionaries, or None."""
        if self._is_plain:
            return tensors[0], tensors[1]
        wide = [
            tensor.to(self._widened[number]) if number in self._widened else tensor
            for number, tensor in enumerate(tensors)
        ]
        targets = None
        if self._has_targets:
            rest = wide[self._num_inputs : len(wide) - self.is_weighted]
            targets = _named(self._targets, rest)
        return _named(self._inputs, wide[: self._num_inputs]), targets

    def weights(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Return the weights ``[batch]``; None if the samples have none."""
        return tensors[-1] if self.is_weighted else None


def num_samples_of(inputs: Any) -> int:
    """Return the number of samples in a batch: a tensor, or a dictionary of tensors."""
    return len(next(iter(inputs.values()))) if isinstance(inputs, Mapping) else len(inputs)


def samples_of(samples: Subset, start: int, stop: int) -> tuple[Any, Any]:
    """Return copies of the inputs and targets of a range of samples, on the CPU."""
    columns = samples.split.columns.values()
    tensors = [view(samples.of(column, start, stop)).clone() for column in columns]
    return Arrangement(samples.split).batch(tensors)


def rows_of(column: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return samples of a column by their indices, in the column's type."""
    signed = _SIGNED.get(column.dtype)
    if signed is None:
        return column.index_select(0, index)
    return column.view(signed).index_select(0, index).view(column.dtype)


def put_on(
    device: torch.device, samples: Subset, start: int = 0, stop: int | None = None
) -> tuple[torch.Tensor, ...]:
    """Put samples on a device, as one tensor for each of `Split.columns`.

    On a CPU a range uses the arrays themselves. Overlapping windows stay views: their shared memory
    is sent once for all columns. For samples that are no range, the host gathers a limited number
    at a time.
    """
    rows, whole = samples.rows[start:stop], samples.split.columns.values()
    if not isinstance(rows, range):
        end = start + len(rows)
        return tuple(_gathered(device, samples, column, start, end) for column in whole)
    columns = [samples.of(column, start, stop) for column in whole]
    if device.type == "cpu":
        return tuple(view(column) for column in columns)
    overlapping = [column for column in columns if overlaps(column)]
    ranges: dict[int, tuple[int, int]] = {}
    for column in overlapping:
        first, last = np.lib.array_utils.byte_bounds(column)
        low, high = ranges.get(id(_root(column)), (first, last))
        ranges[id(_root(column))] = (min(low, first), max(high, last))
    sent: dict[int, torch.Tensor] = {}
    tensors = []
    for column in columns:
        if not overlaps(column):
            tensors.append(view(column).to(device))
            continue
        key = id(_root(column))
        if key not in sent:
            sent[key] = view(_flat(column, *ranges[key])).to(device)
        size = column.itemsize
        offset = (np.lib.array_utils.byte_bounds(column)[0] - ranges[key][0]) // size
        strides = [stride // size for stride in column.strides]
        tensors.append(torch.as_strided(sent[key], column.shape, strides, offset))
    return tuple(tensors)


def view(array: NDArray[Any]) -> torch.Tensor:
    """View an array as a tensor that must not be written to."""
    if any(stride < 0 for stride in array.strides):
        # PyTorch has no negative strides.
        array = array.copy()
    with warnings.catch_warnings():
        # PyTorch warns of read-only arrays, such as a file mapped for reading.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _gathered(
    device: torch.device, samples: Subset, column: Column, start: int, stop: int
) -> torch.Tensor:
    tensor = torch.empty(
        (stop - start, *column.shape[1:]), dtype=view(column[:0]).dtype, device=device
    )
    step = max(1, _GATHERED_BYTES // max(1, column[:1].nbytes))
    for first in range(start, stop, step):
        last = min(first + step, stop)
        tensor[first - start : last - start].copy_(view(samples.of(column, first, last)))
    return tensor


def _names(columns: Any) -> tuple[str, ...] | None:
    return tuple(columns) if isinstance(columns, Mapping) else None


def _named(names: tuple[str, ...] | None, tensors: Sequence[torch.Tensor]) -> Any:
    return tensors[0] if names is None else dict(zip(names, tensors, strict=True))


def overlaps(column: Column) -> bool:
    """Return whether samples share memory: windows closer than their length, or repetitions."""
    if not column.size or any(s % column.itemsize or s < 0 for s in column.strides):
        return False
    first, last = np.lib.array_utils.byte_bounds(column)
    return last - first < column.nbytes


def _root(column: Column) -> NDArray[Any]:
    """Return the array whose memory a column is a view of."""
    root: Any = column
    while isinstance(root.base, np.ndarray):
        root = root.base
    # For a view of windows NumPy inserts an intermediate object that holds the array.
    held = getattr(root.base, "base", None)
    return _root(held) if isinstance(held, np.ndarray) else root


def _flat(column: Column, first: int, last: int) -> NDArray[Any]:
    """View the memory between two addresses, which contains the column, as a flat array."""
    begin = np.lib.array_utils.byte_bounds(column)[0]
    root = _root(column).view(np.ndarray).reshape(-1).view(column.dtype)
    start = np.lib.array_utils.byte_bounds(root)[0]
    assert start <= first <= begin
    size = column.itemsize
    return root[(first - start) // size : (last - start) // size]
