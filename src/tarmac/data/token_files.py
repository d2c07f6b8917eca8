"""Streams of tokens in files, as nanoGPT's ``prepare.py`` writes them; or random ones instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tarmac.data.base import Dataset
from tarmac.data.store import data_root
from tarmac.data.token_windows import windows
from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

# nanoGPT, data/openwebtext/prepare.py: ids below 2**16, one after another.
_TYPE = np.dtype("<u2")

_NUM_WINDOWS = 4_800
_NUM_TEST_WINDOWS = 12
_SEED = 124


def load_tokens(
    name: str, length: int, *, vocabulary: int, stride: int | None = None, root: Path | None = None
) -> Dataset:
    """Load ``train.bin`` and ``val.bin`` of a directory, memory-mapped and cut into windows.

    Where neither is there, the tokens are random ones, which `Dataset.note` says: good for speed
    and memory, and nothing can be learned from them.

    Args:
        name: The directory's, below ``root``.
        length: Tokens of a window.
        vocabulary: Random tokens are below it, each as likely as all others.
        stride: From one window to train on to the next; by default ``length``.
        root: `data_root` if not given.

    Raises:
        TarmacError: One of the files is missing, or is none of such tokens.
        RequestError: A file is too short for a window.
    """
    directory = (root or data_root()) / name
    files = [directory / file for file in ("train.bin", "val.bin")]
    if not any(file.exists() for file in files):
        generator = np.random.default_rng(_SEED)
        train, test = (
            generator.integers(vocabulary, size=count * length + 1, dtype=_TYPE.type)
            for count in (_NUM_WINDOWS, _NUM_TEST_WINDOWS)
        )
        return Dataset(
            name="random tokens",
            train=windows(train, length),
            test=windows(test, length),
            note=f"RANDOM TOKENS, as there is no {name} in {directory.parent}: the speed is real, "
            "the loss means nothing",
        )
    train, test = map(_read, files)
    return Dataset(
        name=name, train=windows(train, length, stride=stride), test=windows(test, length)
    )


def _read(path: Path) -> NDArray[np.uint16]:
    try:
        size = path.stat().st_size
        if not size or size % _TYPE.itemsize:
            raise TarmacError(
                f"{path} has {size} bytes, expected tokens of {_TYPE.itemsize} bytes each"
            )
        return np.memmap(path, _TYPE, "r")
    except OSError as error:
        raise TarmacError(
            f"{path} cannot be read: {error.strerror}",
            hint="train.bin and val.bin must both be there; nanoGPT's "
            "data/openwebtext/prepare.py writes them.",
        ) from error
