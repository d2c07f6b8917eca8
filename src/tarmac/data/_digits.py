"""The digits that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from tarmac.data._base import Dataset, Split

__all__ = ["load_digits"]

# Neighbouring samples are by the same writer, so the test set takes one of each five in turn.
_TEST_EVERY = 5


def load_digits() -> Dataset:
    """Return 1,797 images of 8x8 in 17 grey levels: 1,438 to train and 359 to test."""
    from sklearn import datasets  # noqa: PLC0415 - takes a second, and only this dataset needs it

    bunch = datasets.load_digits()
    inputs, targets = bunch.images.astype(np.uint8), bunch.target.astype(np.int64)
    is_test = np.arange(len(targets)) % _TEST_EVERY == _TEST_EVERY - 1
    return Dataset(
        name="digits",
        train=Split(inputs[~is_test], targets[~is_test]),
        test=Split(inputs[is_test], targets[is_test]),
        num_classes=10,
    )
