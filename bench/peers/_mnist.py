"""MNIST from TARMAC_DATA as NumPy arrays, for peers that know nothing of Tarmac."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np


def load() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return (images, labels) of the training set and of the test set, as uint8."""
    root = Path(os.environ["TARMAC_DATA"]) / "mnist"

    def read(name: str, offset: int) -> np.ndarray:
        return np.frombuffer(gzip.decompress((root / name).read_bytes()), np.uint8, offset=offset)

    return tuple(
        (
            read(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28),
            read(f"{part}-labels-idx1-ubyte.gz", 8),
        )
        for part in ("train", "t10k")
    )
