"""Random pixels in the shape of ImageNet, to measure a machine's speed."""

from __future__ import annotations

import numpy as np

from tarmac.data.base import Dataset, Split

_NUM_TRAIN, _NUM_TEST, _NUM_CLASSES = 2048, 64, 1000


def load_noise() -> Dataset:
    """Return 2,112 images of random bytes in 1,000 random classes.

    The images are the same every time: uint8 ``[n, 3, 224, 224]``, 303 MiB. If they are on the
    device already, the number of images per second does not depend on their content.
    """
    rng = np.random.default_rng(0)

    def split(size: int) -> Split:
        pixels = np.frombuffer(rng.bytes(size * 3 * 224 * 224), np.uint8)
        return Split(
            pixels.reshape(size, 3, 224, 224), rng.integers(0, _NUM_CLASSES, size, dtype=np.int64)
        )

    train, test = split(_NUM_TRAIN), split(_NUM_TEST)
    return Dataset(
        name="noise224",
        train=train,
        test=test,
        num_classes=_NUM_CLASSES,
        note="RANDOM PIXELS: there is nothing to learn; what counts is samples a second",
    )
