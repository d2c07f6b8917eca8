"""Split samples into training and validation samples, for trainings and searches.

Example:
    >>> from tarmac import data
    >>> held = data.hold_out(data.load("digits"), validation_size=200, seed=7)
    >>> held.split, len(held.train), len(held.validation)
    ('random', 1238, 200)
"""

from __future__ import annotations

import dataclasses
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from tarmac.data.base import Column, Dataset, Loaded, Split
from tarmac.errors import RequestError
from tarmac.wording import counted

VALIDATION_SPLITS = ("auto", "random", "last", "own")
ValidationSplit = Literal["random", "last", "own"]

# An arbitrary number that separates this draw from other draws with the same seed.
_STREAM = 0x5B117

_MAX_NAMED = 5

_MAX_DEFAULT_SIZE = 10_000


@dataclasses.dataclass(frozen=True, eq=False)
class Subset:
    """Some samples of a split, in the split's order.

    Attributes:
        split: The split that the samples belong to.
        rows: Ascending positions of the samples in it: a range, or int64 ``[num_samples]``.
    """

    split: Split
    rows: range | NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def whole(cls, split: Split) -> Subset:
        """Return all samples of a split."""
        return cls(split, range(len(split)))

    def of(self, column: Column, start: int = 0, stop: int | None = None) -> Column:
        """Return the subset's rows of an array: a view if the rows are a range, else a copy.

        Args:
            column: Array of the split with a row per sample, such as its inputs.
            start: Position of the first sample in the subset. Default 0.
            stop: Position after the last sample. None: up to the end.
        """
        rows = self.rows[start:stop]
        if isinstance(rows, range):
            return column[rows.start : rows.stop]
        # `np.take` would first copy the whole array of strided windows.
        return np.take(column, rows, axis=0) if column.flags.c_contiguous else column[rows]

    def nbytes(self, start: int = 0, stop: int | None = None) -> int:
        """Return the bytes that the subset's samples take; see `Split.nbytes`."""
        rows = self.rows[start:stop]
        if isinstance(rows, range):
            return self.split.nbytes(rows.start, rows.stop)
        return len(rows) * sum(column[:1].nbytes for column in self.split.columns.values())


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class HoldOut:
    """The training and validation samples of a run.

    Attributes:
        train: Samples that the model is trained on.
        validation: Samples that score the model; empty without validation.
        split: Method of the split: ``random``, ``last`` or ``own``; see `hold_out`.
    """

    train: Subset
    validation: Subset
    split: ValidationSplit

    def check_classes(self, dataset: Dataset) -> None:
        """Raise a RequestError if all samples of a class are held out.

        Args:
            dataset: Dataset that was split. Samples that are read on demand are not checked.
        """
        labels, judging = _labels(dataset, dataset.train), _labels(dataset, self.validation.split)
        if labels is None or judging is None or not len(self.validation):
            return
        held, trained = self.validation.of(judging), self.train.of(labels)
        lost = np.setdiff1d(np.intersect1d(held, labels), trained)
        if not len(lost):
            return
        names = [dataset.classes[it] if dataset.classes else str(it) for it in lost[:_MAX_NAMED]]
        more = f" and {len(lost) - _MAX_NAMED} more" if len(lost) > _MAX_NAMED else ""
        raise RequestError(
            f"{'classes' if len(lost) > 1 else 'class'} {', '.join(names)}{more} of {dataset.name} "
            "would be scored but not trained on: "
            f"{counted(len(held), 'sample is', 'samples are')} held out, and the "
            f"{len(trained):,} training samples have none of it",
            # Windows of a series overlap: a random draw would validate on training samples.
            hint="Draw them by the seed instead: --validation-split random"
            if self.split == "last" and not dataset.train.is_series
            else "Hold out fewer samples or train on more: --validation-size N, --train-size N",
        )


def hold_out(
    dataset: Dataset,
    *,
    validation_size: int | None = None,
    train_size: int | None = None,
    split: str = "auto",
    seed: int = 0,
) -> HoldOut:
    """Choose the training and the validation samples.

    ``random`` draws both by the seed, stratified if targets are classes. The draw depends only on
    the seed, the number of samples and their classes. So the held-out samples do not depend on
    ``train_size``, nor on the machine or the framework. ``last`` takes the first ``train_size``
    samples and the last ``validation_size``. ``own`` takes the dataset's own validation samples,
    and draws the training samples. ``auto`` is ``own`` if the dataset has validation samples,
    ``last`` if it is a series (`Split.is_series`), else ``random``.

    Args:
        dataset: Dataset whose samples are held out.
        validation_size: Number of validation samples. Default: all of the dataset's own, or 0. If
            ``split`` is ``random`` or ``last`` and ``train_size`` is None,
            `default_validation_size`.
        train_size: Number of training samples. Default: all that are not held out.
        split: Method of the split: a value of `VALIDATION_SPLITS`. Default ``auto``.
        seed: Seed of the draw, at least 0. Default 0.

    Raises:
        RequestError: There are too few samples, or ``split`` is ``own`` and the dataset has no
            validation samples.
    """
    train, own = dataset.train, dataset.validation
    if split not in VALIDATION_SPLITS:
        raise RequestError(
            f"validation_split is {split!r}, expected {', '.join(VALIDATION_SPLITS[:-1])} or "
            f"{VALIDATION_SPLITS[-1]}"
        )
    if split == "own" and own is None:
        raise RequestError(
            f"validation_split is own, and {dataset.name} has no validation samples of its own",
            hint="Give it some, Dataset(..., validation=Split(...)), or leave --validation-split "
            "out.",
        )
    if validation_size is None:
        is_own = own is not None and split in ("auto", "own")
        validation_size = len(own) if own is not None and is_own else 0
        if split in ("random", "last") and train_size is None and not _is_stream(train):
            validation_size = default_validation_size(len(train))
    if split == "auto":
        is_own = own is not None and validation_size > 0
        split = "own" if is_own else "last" if train.is_series else "random"
    num_cut = 0 if split == "own" else validation_size
    _check_sizes(dataset, own if split == "own" else None, validation_size)
    available = len(train) - num_cut
    size = available if train_size is None else train_size
    if not 1 <= size <= available:
        held = f" ({num_cut} more are held out)" if num_cut else ""
        raise RequestError(
            f"train_size is {size}, but {dataset.name} has {available} samples to train on{held}"
        )
    draws = split == "random" or (split == "own" and not train.is_series)
    first, last = _both(dataset, train, size, num_cut, seed if draws else None)
    validation = Subset(train, last)
    if split == "own":
        assert own is not None
        of_own = None if own.is_series else seed
        validation = Subset(own, _both(dataset, own, 0, validation_size, of_own)[1])
    return HoldOut(
        train=Subset(train, first), validation=validation, split=cast("ValidationSplit", split)
    )


def default_validation_size(num_samples: int, train_size: int | None = None) -> int:
    """Return the default validation size: one sample per five training samples, at most 10,000.

    Args:
        num_samples: Number of samples to choose from.
        train_size: Number of training samples. None: all that are not held out.
    """
    size = num_samples // 6
    if train_size is not None:
        size = min(train_size // 5, num_samples - train_size)
    return min(_MAX_DEFAULT_SIZE, max(1, size))


def _check_sizes(dataset: Dataset, own: Split | None, validation_size: int) -> None:
    name = dataset.name
    if own is not None:
        if validation_size > len(own):
            raise RequestError(
                f"validation_size is {validation_size}, and {name} has {len(own)} validation "
                "samples of its own"
            )
    elif validation_size and _is_stream(dataset.train):
        raise RequestError(
            f"validation_size is {validation_size}, and the samples of {name} are a stream, which "
            "has no end to hold out",
            hint="Give it validation samples of its own: Dataset(..., validation=Split(...)).",
        )
    elif validation_size >= len(dataset.train):
        raise RequestError(
            f"validation_size is {validation_size}, which leaves none of the "
            f"{len(dataset.train)} samples of {name} to train on"
        )


def _both(
    dataset: Dataset, split: Split, num_first: int, num_last: int, seed: int | None
) -> tuple[range | NDArray[np.int64], range | NDArray[np.int64]]:
    """Return rows from the beginning and from the end of a split's order.

    The order is random, unless ``seed`` is None, all rows are taken, or the split is a stream.
    """
    total = len(split)
    is_whole = total in (num_first, num_last) and 0 in (num_first, num_last)
    if seed is None or is_whole or _is_stream(split):
        return range(num_first), range(total - num_last, total)
    order = _drawn_order(total, _labels(dataset, split), seed)
    return np.sort(order[:num_first]), np.sort(order[total - num_last :])


def _drawn_order(total: int, labels: NDArray[np.int64] | None, seed: int) -> NDArray[np.int64]:
    """Draw a random order of samples in which each prefix and each suffix is stratified."""
    # Only this generator of NumPy keeps its stream across versions.
    drawing = np.random.RandomState([seed % 2**32, seed >> 32, _STREAM])
    order: NDArray[np.int64] = drawing.permutation(total).astype(np.int64)
    if labels is None:
        return order
    by_class = np.argsort(labels[order], kind="stable")
    counts = np.bincount(labels)
    firsts = np.repeat(np.cumsum(counts) - counts, counts)
    # Sample k of a class's n samples, from 0, has its place at (k + 1/2) / n of the whole.
    places = np.empty(total)
    places[by_class] = (np.arange(total) - firsts + 0.5) / np.repeat(counts, counts)
    return order[np.argsort(places, kind="stable")]


def _labels(dataset: Dataset, split: Split) -> NDArray[np.int64] | None:
    """Return the classes of all samples; None if there are none or they are read on demand."""
    if dataset.num_classes is None or isinstance(split, Loaded):
        return None
    assert isinstance(split.targets, np.ndarray)
    return split.targets


def _is_stream(split: Split) -> bool:
    return isinstance(split, Loaded) and split.loading.is_stream
