"""The digits that come with Tarmac; source and licence are in ``embedded/optdigits.md``."""

from __future__ import annotations

import gzip
from importlib import resources

import numpy as np

from tarmac.data.base import Dataset, Split

# Neighbouring samples are by the same writer, so the test set takes every fifth sample.
_TEST_EVERY = 5


def load_digits() -> Dataset:
    """Return 1,797 images of 8x8 pixels in 17 grey levels: 1,438 to train and 359 to test."""
    packed = resources.files("tarmac.data").joinpath("embedded", "optdigits.csv.gz").read_bytes()
    rows = np.loadtxt(gzip.decompress(packed).splitlines(), dtype=np.int64, delimiter=",")
    inputs, targets = rows[:, :-1].astype(np.uint8).reshape(-1, 8, 8), rows[:, -1].copy()
    is_test = np.arange(len(targets)) % _TEST_EVERY == _TEST_EVERY - 1
    return Dataset(
        name="digits",
        train=Split(inputs[~is_test], targets[~is_test]),
        test=Split(inputs[is_test], targets[is_test]),
        num_classes=10,
    )
