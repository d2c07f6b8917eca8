"""The generators that a dataset may draw from: PyTorch's, NumPy's and Python's own.

What a sample draws is a function of its number. To seed all three for each sample takes as long as
to read a small one, so each is seeded once for a batch until one has drawn from it.
"""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import torch
from torch.utils import data as torch_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_Made = TypeVar("_Made")

# What a generator is seeded with that nobody is known to draw from; any number.
_MARK = 0x5AFE


class SampleDraws:
    """Seeds the generators for each sample of a batch, those that are drawn from."""

    def __init__(self) -> None:
        # By position in _SOURCES, as this is sent to workers.
        self._used: list[int] = []
        # It takes 100 microseconds to make.
        self._spare = np.random.MT19937(_MARK)

    def settled(self, make: Callable[[Callable[[int], None]], _Made]) -> _Made:
        """Return a batch that was made with all that draws seeded.

        Args:
            make: Makes it, given what seeds for a sample. Called again where it has drawn from a
                generator for the first time.
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
        """Say whether any generator that carries the mark was drawn from, and keep which."""
        moved = [it for it in others if _SOURCES[it].draw() != _SOURCES[it].first]
        self._used += moved
        return bool(moved)


@contextlib.contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """Let the generators that a dataset may draw from begin at a seed, and put them back."""
    with _apart(np.random.MT19937(_MARK)):
        for source in _SOURCES:
            source.seed(seed)
        yield


@contextlib.contextmanager
def _apart(spare: np.random.MT19937) -> Iterator[None]:
    """Put back the generators of this process; a worker has none that anybody else draws from.

    Args:
        spare: Takes the place of NumPy's, whose state takes 20 times as long to read and write.
    """
    if torch_data.get_worker_info() is not None:
        yield
        return
    # Both are documented, and not in NumPy's stubs.
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
    # Hash functions' trick: the upper half has seen all of it.
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
