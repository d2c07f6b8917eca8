"""Batches of samples from a user's dataset, made in a loader's worker processes.

The objects here are sent to worker processes, so they hold no device. Their errors name the sample.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import data as torch_data

from tarmac.data import Loaded, Loading, as_array, in_one_line
from tarmac.errors import TarmacError
from tarmac.training.engine.sample_draws import SampleDraws

# Mixes epoch and index into the seed of a sample's own draws. Large odd numbers.
_EPOCH_STRIDE = 0x9E3779B97F4A7C15
_INDEX_STRIDE = 0xBF58476D1CE4E5B9

# Environment variable for Python's option ``-P``.
_SAFE_PATH = "PYTHONSAFEPATH"

# Seconds for which a worker may outlive SIGTERM, so that the training can save its state.
_GRACE_S = 20


class BadSampleError(Exception):
    """An error for a sample that cannot be read or differs from the others, in one line."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """The shapes and types that all batches of a split share.

    Attributes:
        shapes: Shape of a sample in each column, by the names of `Split.columns`.
        dtypes: NumPy data type of each column, by the names of `Split.columns`.
        num_classes: Upper bound, exclusive, of the targets; None if they are no classes.
        loading: How to read the samples of the split.
    """

    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, np.dtype[Any]]
    num_classes: int | None
    loading: Loading

    @classmethod
    def of(cls, split: Loaded, num_classes: int | None) -> Kind:
        """Return the kind of a split, from its first samples."""
        columns = split.columns
        return cls(
            {name: column.shape[1:] for name, column in columns.items()},
            {name: column.dtype for name, column in columns.items()},
            num_classes,
            split.loading,
        )

    def gather(self, samples: Sequence[Any], index: Sequence[object]) -> tuple[torch.Tensor, ...]:
        """Return a batch of samples, as one tensor per column.

        Args:
            samples: Samples of the batch, as the dataset returns them.
            index: Index in the dataset of each sample, for error messages.

        Raises:
            BadSampleError: A sample differs from the first in shape or type, or is not finite.
        """
        if self.loading.collate is not None:
            return self._take(self.loading.collate(list(samples)), index)
        rows: dict[str, list[Any]] = {name: [] for name in self.shapes}
        for number, sample in zip(index, samples, strict=True):
            leaves = self._leaves(sample, number)
            for name, of_column in rows.items():
                of_column.append(leaves[name])
        batch = tuple(
            torch_data.default_collate(self._rows(name, values, index))
            for name, values in rows.items()
        )
        self._check_values(batch, index)
        return batch

    def take(self, batch: Any, position: int) -> tuple[torch.Tensor, ...]:
        """Split a batch of a user's loader into one tensor per column.

        Args:
            batch: Batch of samples, as the loader yields it.
            position: Position in the epoch of the batch's first sample, for error messages.

        Raises:
            BadSampleError: A sample differs from the first in shape or type, or is not finite.
        """
        return self._take(batch, None, position)

    def _take(
        self, batch: Any, index: Sequence[object] | None, position: int = 0
    ) -> tuple[torch.Tensor, ...]:
        leaves = self._leaves(batch)
        tensors = tuple(self._tensor(name, leaves[name], "a batch") for name in self.shapes)
        count = len(tensors[0]) if index is None else len(index)
        for name, tensor in zip(self.shapes, tensors, strict=True):
            if tuple(tensor.shape) != (count, *self.shapes[name]):
                raise BadSampleError(
                    f"{name} of a batch are of shape {list(tensor.shape)}, expected "
                    f"{[count, *self.shapes[name]]} as the first samples are; bring all samples to "
                    "one shape, by cropping or padding"
                )
        self._check_values(tensors, index or range(position, position + count))
        return tensors

    def _leaves(self, item: Any, number: object = None) -> dict[str, Any]:
        """Return the parts, by name, of a sample with a number or of a batch without one."""
        try:
            leaves = self.loading.naming.leaves(item)
            if leaves.keys() == self.shapes.keys():
                return leaves
            words = f" has {', '.join(leaves)}, and the first has {', '.join(self.shapes)}"
        except TarmacError as error:
            words = f": {error.message}"
        raise BadSampleError(("a batch" if number is None else f"sample {number}") + words)

    def _rows(self, name: str, values: list[Any], index: Sequence[object]) -> list[Any]:
        """Return a column's values in a form to collate, after checking each."""
        shape, dtype = self.shapes[name], self._tensor_dtype(name)
        if all(type(v) is torch.Tensor and v.dtype == dtype and v.shape == shape for v in values):
            return [value.detach() for value in values]
        if not shape and dtype == torch.int64 and all(type(value) is int for value in values):
            return values
        return [self._row(name, v, number) for v, number in zip(values, index, strict=True)]

    def _row(self, name: str, value: Any, number: object) -> torch.Tensor:
        tensor = self._tensor(name, value, f"sample {number} (from 0)")
        if tuple(tensor.shape) != self.shapes[name]:
            raise BadSampleError(
                f"{name} are of shape {list(tensor.shape)} in sample {number} (from 0), and "
                f"{list(self.shapes[name])} in the first; bring all samples to one shape, by "
                "cropping or padding"
            )
        return tensor

    def _tensor(self, name: str, value: Any, where: str) -> torch.Tensor:
        if isinstance(value, torch.Tensor) and value.dtype != torch.bfloat16:
            tensor = value.detach()
        else:
            array = as_array(value)
            tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
        expected = self._tensor_dtype(name)
        if tensor.dtype != expected:
            raise BadSampleError(
                f"{name} are {tensor.dtype} in {where}, and {expected} in the first sample"
            )
        return tensor

    def _tensor_dtype(self, name: str) -> torch.dtype:
        return torch.from_numpy(np.empty(0, self.dtypes[name])).dtype

    def _check_values(self, batch: Sequence[torch.Tensor], index: Sequence[object]) -> None:
        for name, tensor in zip(self.shapes, batch, strict=True):
            if tensor.is_floating_point():
                # A finite sum proves that all values are finite, and is usually enough. Summing is
                # 40 times faster without widening. If it overflows, the values are checked below.
                wide = torch.float32 if tensor.dtype == torch.float16 else tensor.dtype
                if tensor.sum(dtype=wide).isfinite():
                    continue
                is_finite = tensor.isfinite().reshape(len(tensor), -1).all(1)
                if not is_finite.all():
                    number = index[int(is_finite.int().argmin())]
                    raise BadSampleError(
                        f"{name} hold a value that is not finite in sample {number} (from 0); "
                        "leave such samples out, or put a number in its place"
                    )
            elif name == "targets" and self.num_classes is not None and tensor.numel():
                is_known = (tensor >= 0) & (tensor < self.num_classes)
                if not is_known.all():
                    first = int(is_known.int().argmin())
                    raise BadSampleError(
                        f"targets are {int(tensor[first])} in sample {index[first]} (from 0), "
                        f"expected 0 to {self.num_classes - 1}"
                    )


class Indexed(torch_data.Dataset[Any]):
    """A map-style dataset in which every sample draws from generators seeded for it alone.

    So a sample's draws, such as a random crop, depend only on the seed, the epoch and the index.
    They are the same on any number of devices and workers, and after a stop.

    Args:
        kind: Shapes and types of the samples, and how to read them.
        seed: Seed of the training; each sample's own seed follows from it.
    """

    def __init__(self, kind: Kind, seed: int) -> None:
        self._kind = kind
        self._seed = seed
        self._draws = SampleDraws()

    def __getitems__(self, keys: Sequence[tuple[int, int]]) -> tuple[torch.Tensor, ...]:
        """Return a batch.

        Args:
            keys: The epoch and the index of each sample.
        """
        return self._draws.settled(lambda seed: self._read(keys, seed))

    def _read(
        self, keys: Sequence[tuple[int, int]], seed: Callable[[int], None]
    ) -> tuple[torch.Tensor, ...]:
        samples = []
        for epoch, index in keys:
            seed(self._seed + epoch * _EPOCH_STRIDE + index * _INDEX_STRIDE)
            try:
                samples.append(self._kind.loading.dataset[index])
            except Exception as error:
                raise BadSampleError(f"sample {index} (from 0): {in_one_line(error)}") from error
        return self._kind.gather(samples, [index for _, index in keys])


@contextlib.contextmanager
def starting_workers() -> Iterator[None]:
    """Keep the current directory off the path of workers that are new interpreters.

    With ``spawn`` or ``forkserver``, a user's ``types.py`` there would crash them.
    `multiprocessing` has no option for that, and gives workers this process's path once they run.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        _set_safe_path(before)


def _set_safe_path(value: str | None) -> None:
    if value is None:
        os.environ.pop(_SAFE_PATH, None)
    else:
        os.environ[_SAFE_PATH] = value


@dataclasses.dataclass(frozen=True)
class WorkerStart:
    """A worker's initializer that leaves interrupts to the training's first process.

    Attributes:
        user: The user's ``worker_init_fn``, called in each worker; None for none.
        safe_path: The user's own PYTHONSAFEPATH, which a worker's child processes inherit.
    """

    user: Callable[[int], None] | None = None
    safe_path: str | None = dataclasses.field(default_factory=lambda: os.environ.get(_SAFE_PATH))

    def __call__(self, worker: int) -> None:
        """Leave Ctrl-C and SIGTERM to the training, which saves its state before it ends.

        The training stops its workers. After SIGTERM a worker ends by itself, after `_GRACE_S`.
        """
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: signal.alarm(_GRACE_S))
        _set_safe_path(self.safe_path)
        if self.user is not None:
            self.user(worker)
