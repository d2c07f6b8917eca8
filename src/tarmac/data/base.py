"""Datasets as values: arrays with their names and sizes."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Dataset", "Loader", "Progress", "Split"]

_NUM_BLOCKS = 256
_BLOCK_BYTES = 2**20


class Progress(Protocol):
    """Is told how a download goes."""

    def __call__(self, done: int, total: int | None, file: str) -> None:
        """Take note that ``done`` bytes, of ``total`` where that is known, are here."""


class Loader(Protocol):
    """Loads a dataset by its name, as `tarmac.data.load` does."""

    def __call__(self, name: str, *, progress: Progress | None = None) -> Dataset:
        """Return the dataset; ``progress`` is told how a download goes."""


@dataclasses.dataclass(frozen=True)
class Split:
    """Samples and their classes.

    Attributes:
        inputs: uint8 ``[num_samples, *sample_shape]``.
        targets: int64 ``[num_samples]``, from 0.
    """

    inputs: NDArray[np.uint8]
    targets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.targets)


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Training and test samples of one kind.

    Attributes:
        name: For messages and run records.
        train: What a model may be fitted to and chosen on.
        test: What it is scored on, once.
        num_classes: Targets are below this.

    Raises:
        RequestError: The arrays do not fit together.
    """

    name: str
    train: Split
    test: Split
    num_classes: int

    def __post_init__(self) -> None:
        for part, split in (("train", self.train), ("test", self.test)):
            where = f"dataset {self.name!r}: {part}"
            if split.inputs.dtype != np.uint8:
                raise RequestError(f"{where}.inputs are {split.inputs.dtype}, expected uint8")
            if split.targets.dtype != np.int64 or split.targets.ndim != 1:
                raise RequestError(
                    f"{where}.targets are {split.targets.dtype} of {split.targets.ndim} "
                    "dimensions, expected int64 of 1"
                )
            if not 0 < len(split.inputs) == len(split.targets):
                raise RequestError(
                    f"{where} has {len(split.inputs)} inputs and {len(split.targets)} targets, "
                    "expected as many of each, at least 1"
                )
            low, high = split.targets.min(), split.targets.max()
            if low < 0 or high >= self.num_classes:
                raise RequestError(
                    f"{where}.targets are from {low} to {high}, "
                    f"expected 0 to {self.num_classes - 1}"
                )
        if self.train.inputs.shape[1:] != self.test.inputs.shape[1:]:
            raise RequestError(
                f"dataset {self.name!r}: samples are {self.sample_shape} in train and "
                f"{self.test.inputs.shape[1:]} in test"
            )

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample, e.g. ``(28, 28)``."""
        return self.train.inputs.shape[1:]

    @functools.cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change with any byte of the data.

        Of an array of more than 256 MiB they see its shape and 256 evenly spaced MiB, so that a
        memory-mapped file need not be read from end to end.
        """
        digest = hashlib.blake2b(digest_size=8)
        for split in (self.train, self.test):
            _digest_array(digest, split.inputs)
            _digest_array(digest, split.targets)
        return digest.hexdigest()


def _digest_array(digest: hashlib.blake2b, array: NDArray[Any]) -> None:
    if array.nbytes <= _NUM_BLOCKS * _BLOCK_BYTES:
        digest.update(np.ascontiguousarray(array).data)
        return
    digest.update(repr(array.shape).encode())
    num_rows = max(1, _BLOCK_BYTES // array[:1].nbytes)
    for start in np.linspace(0, len(array) - num_rows, _NUM_BLOCKS, dtype=np.int64):
        digest.update(np.ascontiguousarray(array[start : start + num_rows]).data)
