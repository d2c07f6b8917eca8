"""The diabetes table that comes with Tarmac; its source is in ``embedded/diabetes.md``."""

from __future__ import annotations

import gzip
from importlib import resources

import numpy as np

from tarmac.data.base import Dataset, Split

_TEST_EVERY = 5

# As scikit-learn names them.
_FEATURES = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")


def load_diabetes() -> Dataset:
    """Return the diabetes table: 354 patients to train on and 88 to test on.

    Inputs are float32 ``[n, 10]``, scaled to mean 0 and standard deviation 1 over the training
    patients. Targets are float32 ``[n]`` from 25 to 346, as published. Every fifth patient is a
    test sample.
    """
    packed = resources.files("tarmac.data").joinpath("embedded", "diabetes.csv.gz").read_bytes()
    rows = np.loadtxt(gzip.decompress(packed).splitlines(), dtype=np.float64, delimiter=",")
    is_test = np.arange(len(rows)) % _TEST_EVERY == _TEST_EVERY - 1
    inputs, targets = rows[:, :-1], rows[:, -1].astype(np.float32)
    inputs = (inputs - inputs[~is_test].mean(0)) / inputs[~is_test].std(0)
    inputs = inputs.astype(np.float32)
    return Dataset(
        name="diabetes",
        train=Split(inputs[~is_test], targets[~is_test]),
        test=Split(inputs[is_test], targets[is_test]),
        features=_FEATURES,
    )
