"""Which samples are trained on and which are held out, for trainings and searches alike.

Example:
    >>> from tarmac import data
    >>> held = data.hold_out(data.load("digits"), validation_size=200, seed=7)
    >>> held.split, len(held.train), len(held.validation)
    ('random', 1238, 200)
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from tarmac.data.base import Loaded, Split
from tarmac.errors import RequestError
from tarmac.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tarmac.data.base import Column, Dataset

VALIDATION_SPLITS = ("auto", "random", "last", "own")
ValidationSplit = Literal["random", "last", "own"]

# Keeps the draw apart from others of the same seed; any number.
_STREAM = 0x5B117

_MAX_NAMED = 5

_MAX_DEFAULT_SIZE = 10_000


@dataclasses.dataclass(frozen=True, eq=False)
class Subset:
    """Some samples of a split, in the split's order.

    Attributes:
        split: The samples of which these are some.
        rows: Their positions in it, ascending: a range, or int64 ``[num_samples]``.
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
        """Return these samples of one of the split's arrays: a view of a range, else a copy.

        Args:
            column: Array of the split with a row per sample, such as its inputs.
            start: The first sample, by its position here.
            stop: The one after the last; None for all.
        """
        rows = self.rows[start:stop]
        if isinstance(rows, range):
            return column[rows.start : rows.stop]
        # Of strided windows `np.take` would copy all before.
        return np.take(column, rows, axis=0) if column.flags.c_contiguous else column[rows]

    def nbytes(self, start: int = 0, stop: int | None = None) -> int:
        """Return the memory that samples take by themselves; see `Split.nbytes`."""
        rows = self.rows[start:stop]
        if isinstance(rows, range):
            return self.split.nbytes(rows.start, rows.stop)
        return len(rows) * sum(column[:1].nbytes for column in self.split.columns.values())


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class HoldOut:
    """The samples of a training.

    Attributes:
        train: Those that are trained on.
        validation: Those that judge it; none where no validation was asked for.
        split: How they were chosen: ``random``, ``last`` or ``own``; see `hold_out`.
    """

    train: Subset
    validation: Subset
    split: ValidationSplit

    def check_classes(self, dataset: Dataset) -> None:
        """Raise a RequestError where a class is held out whole, so that none can learn it.

        Args:
            dataset: That was split. Nothing is known of classes that are read sample by sample.
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
            f"would be judged and not trained on: {counted(len(held), 'sample is', 'samples are')} "
            f"held out, and the {len(trained):,} that are trained on have none of it",
            # Windows overlap: drawn ones would be judged on what is trained on.
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
    """Choose which samples are trained on and which judge.

    ``random`` draws both by the seed, each class by its share where targets are classes: a function
    of the seed, the number of samples and their classes alone. So the held-out samples do not
    depend on ``train_size``, nor on where and by what a network is trained. ``last`` takes the
    first ``train_size`` samples and the last ``validation_size``. ``own`` takes the dataset's own
    validation samples, and draws what is trained on. ``auto`` is ``own`` where a dataset has such
    samples, ``last`` where it is a series (`Split.is_series`), else ``random``.

    Args:
        dataset: Dataset whose samples are held out.
        validation_size: How many judge; by default all of the dataset's own, or none. Where
            ``split`` is ``random`` or ``last`` and no ``train_size`` is named either,
            `default_validation_size`.
        train_size: How many are trained on; all that are left by default.
        split: How to choose: a value of `VALIDATION_SPLITS`. Default ``auto``.
        seed: Seed of the draw, at least 0.

    Raises:
        RequestError: There are too few samples, or none of the dataset's own.
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
    """Return how many samples to hold out where nobody says: one for every five to train on.

    Args:
        num_samples: Samples to choose from.
        train_size: How many of them are trained on; None for all that are left.
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
    """Return so many rows from the beginning of a split's order and from its end.

    The order is drawn, but for None and where there is nothing to choose.
    """
    total = len(split)
    is_whole = total in (num_first, num_last) and 0 in (num_first, num_last)
    if seed is None or is_whole or _is_stream(split):
        return range(num_first), range(total - num_last, total)
    order = _drawn_order(total, _labels(dataset, split), seed)
    return np.sort(order[:num_first]), np.sort(order[total - num_last :])


def _drawn_order(total: int, labels: NDArray[np.int64] | None, seed: int) -> NDArray[np.int64]:
    """Draw an order of samples, of which each beginning and each end has its share of classes."""
    # Of NumPy's generators this alone keeps its stream from version to version.
    drawing = np.random.RandomState([seed % 2**32, seed >> 32, _STREAM])
    order: NDArray[np.int64] = drawing.permutation(total).astype(np.int64)
    if labels is None:
        return order
    by_class = np.argsort(labels[order], kind="stable")
    counts = np.bincount(labels)
    firsts = np.repeat(np.cumsum(counts) - counts, counts)
    # The k-th of a class's n samples, from 0, has its place at (k + 1/2) / n of the whole.
    places = np.empty(total)
    places[by_class] = (np.arange(total) - firsts + 0.5) / np.repeat(counts, counts)
    return order[np.argsort(places, kind="stable")]


def _labels(dataset: Dataset, split: Split) -> NDArray[np.int64] | None:
    """Return the classes of all samples; None where they are none, or not here to be looked at."""
    if dataset.num_classes is None or isinstance(split, Loaded):
        return None
    assert isinstance(split.targets, np.ndarray)
    return split.targets


def _is_stream(split: Split) -> bool:
    return isinstance(split, Loaded) and split.loading.is_stream
