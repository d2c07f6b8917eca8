"""The generators that a dataset may draw from: PyTorch's, NumPy's and Python's own.

A sample's draws depend only on its number. Seeding all three generators for each sample takes as
long as reading a small sample. So a generator is seeded per sample only after its first use; until
then it is seeded once per batch.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch.utils import data as torch_data

_Made = TypeVar("_Made")

# Seed of the generators that are not known to be used. Any number works.
_MARK = 0x5AFE


class SampleDraws:
    """A seeder of the generators that a dataset draws from, for each sample of a batch."""

    def __init__(self) -> None:
        # Positions in _SOURCES, as this object is sent to workers.
        self._used: list[int] = []
        # Kept, as making it takes 100 microseconds.
        self._spare = np.random.MT19937(_MARK)

    def settled(self, make: Callable[[Callable[[int], None]], _Made]) -> _Made:
        """Return a batch that is made with all used generators seeded per sample.

        Args:
            make: Function that makes the batch, and gets a function that seeds for a sample. It is
                called again if it has drawn from a generator for the first time.
        """
        with _apart(self._spare):
            while True:
                others = [number for number in range(len(_SOURCES)) if number not in self._used]
                for number in others:
                    _SOURCES[number].seed(_MARK)
                try:
                    made = make(self._seed)
                except Exception:
                    if not self._learn(others):
                        raise
                else:
                    if not self._learn(others):
                        return made

    def _seed(self, seed: int) -> None:
        for number in self._used:
            _SOURCES[number].seed(seed)

    def _learn(self, others: Sequence[int]) -> bool:
        """Return whether a generator in ``others`` has been drawn from, and remember it as used."""
        moved = [it for it in others if _SOURCES[it].draw() != _SOURCES[it].first]
        self._used += moved
        return bool(moved)


@contextlib.contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """Seed the generators that a dataset may draw from, and restore their states at the end."""
    with _apart(np.random.MT19937(_MARK)):
        for source in _SOURCES:
            source.seed(seed)
        yield


@contextlib.contextmanager
def _apart(spare: np.random.MT19937) -> Iterator[None]:
    """Restore this process's generators at the end; nothing else draws from a worker's.

    Args:
        spare: Replacement for NumPy's generator, whose state takes 20 times as long to copy.
    """
    if torch_data.get_worker_info() is not None:
        yield
        return
    # Both functions are documented but missing from NumPy's stubs.
    get, put = np.random.get_bit_generator, np.random.set_bit_generator  # type: ignore[attr-defined]
    kept = torch.get_rng_state(), get(), random.getstate()
    put(spare)
    try:
        yield
    finally:
        torch.set_rng_state(kept[0])
        put(kept[1])
        random.setstate(kept[2])


class _Source(NamedTuple):
    """A generator of a process.

    Attributes:
        seed: Seeds the generator with a whole number.
        draw: Draws the next number from the generator.
        first: First number that it draws when seeded with the mark.
    """

    seed: Callable[[int], object]
    draw: Callable[[], float]
    first: float


def _torch_draw(generator: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=generator, device="cpu"))


def _numpy_seed(seed: int) -> int:
    # Fold the upper half into the lower, so that all bits of the seed count.
    return (seed >> 32 ^ seed) % 2**32


_SOURCES = (
    _Source(
        lambda seed: torch.default_generator.manual_seed(seed % 2**63),
        lambda: _torch_draw(torch.default_generator),
        _torch_draw(torch.Generator().manual_seed(_MARK)),
    ),
    _Source(
        lambda seed: np.random.seed(_numpy_seed(seed)),
        np.random.random_sample,
        np.random.RandomState(_numpy_seed(_MARK)).random_sample(),
    ),
    _Source(random.seed, random.random, random.Random(_MARK).random()),  # noqa: S311 - no secret
)
