"""The datasets that come with Tarmac: two embedded datasets, and one of random pixels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from tarmac.data.base import Dataset
from tarmac.data.diabetes import load_diabetes
from tarmac.data.digits import load_digits
from tarmac.data.noise import load_noise


@dataclasses.dataclass(frozen=True, kw_only=True)
class Included:
    """A dataset that needs no download.

    Attributes:
        summary: Description for lists, in one line.
        homepage: URL of the authors' page; empty for random data.
        num_train: Number of training samples, without loading the data.
        num_test: Number of test samples, without loading the data.
        sample_shape: Shape of one sample's inputs, such as ``(8, 8)``.
        load: Function that returns the dataset, without a download.
    """

    summary: str
    homepage: str
    num_train: int
    num_test: int
    sample_shape: tuple[int, ...]
    load: Callable[[], Dataset]


INCLUDED: Mapping[str, Included] = {
    "digits": Included(
        summary="small handwritten digits, embedded in Tarmac",
        homepage="https://doi.org/10.24432/C50P49",
        num_train=1438,
        num_test=359,
        sample_shape=(8, 8),
        load=load_digits,
    ),
    "diabetes": Included(
        summary="ten measurements of a patient and the progress of a disease, embedded in Tarmac",
        homepage="https://www4.stat.ncsu.edu/~boos/var.select/diabetes.html",
        num_train=354,
        num_test=88,
        sample_shape=(10,),
        load=load_diabetes,
    ),
    "noise224": Included(
        summary="random pixels in the shape of ImageNet: for speed, there is nothing to learn",
        homepage="",
        num_train=2048,
        num_test=64,
        sample_shape=(3, 224, 224),
        load=load_noise,
    ),
}
