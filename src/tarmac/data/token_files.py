"""Load token files as nanoGPT's ``prepare.py`` writes them, or make random tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tarmac.data.base import Dataset
from tarmac.data.store import data_root
from tarmac.data.token_windows import windows
from tarmac.errors import TarmacError

# nanoGPT, data/openwebtext/prepare.py: ids below 2**16, one after another.
_TYPE = np.dtype("<u2")

_NUM_WINDOWS = 4_800
_NUM_TEST_WINDOWS = 12
_SEED = 124


def load_tokens(
    name: str, length: int, *, vocabulary: int, stride: int | None = None, root: Path | None = None
) -> Dataset:
    """Load ``train.bin`` and ``val.bin`` of a directory, memory-mapped and cut into windows.

    If both files are missing, the tokens are random and `Dataset.note` says so. Random tokens
    serve to measure speed and memory; nothing can be learned from them.

    Args:
        name: Name of the directory below ``root``.
        length: Tokens per window, at least 1.
        vocabulary: Number of distinct random tokens, at most 65,536; uniformly distributed.
        stride: Tokens from the start of a training window to the start of the next, at least 1.
            Default ``length``.
        root: Directory that holds all datasets. Default `data_root`.

    Raises:
        TarmacError: One file is missing, or a file's size is no multiple of a token's size.
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
            note=f"RANDOM TOKENS, because there is no {name} in {directory.parent}: the speed is "
            "real, "
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
