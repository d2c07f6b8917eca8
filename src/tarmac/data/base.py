"""Datasets as values: arrays with their names and sizes."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tarmac.data.blocks import digest_array
from tarmac.data.checking import check_classes, check_columns, check_weights
from tarmac.data.loading import Loading, loading_of
from tarmac.data.naming import Names, Naming
from tarmac.errors import RequestError

# ``[num_samples, ...]`` of numbers or bools; may be memory-mapped, or a strided view.
Column: TypeAlias = NDArray[Any]

# Where a sample has several parts, by name.
Columns: TypeAlias = Column | Mapping[str, Column]

# The shape of one sample, or that of each part by name.
SampleShape: TypeAlias = tuple[int, ...] | dict[str, tuple[int, ...]]


class Progress(Protocol):
    """Is told how a download goes."""

    def __call__(self, done: int, total: int | None, file: str) -> None:
        """Take note that ``done`` bytes, of ``total`` where that is known, are here."""


class Loader(Protocol):
    """Loads a dataset by its name, as `tarmac.data.load` does."""

    def __call__(self, name: str, *, progress: Progress | None = None) -> Dataset:
        """Return the dataset; ``progress`` is told how a download goes."""


@dataclasses.dataclass(frozen=True)
class Split:
    """Samples, what is wanted of them, and how much each counts.

    Attributes:
        inputs: ``[num_samples, *sample_shape]`` of any type, such as uint8 images, float32 tables
            or uint16 tokens; a dictionary of such where the model takes several, which it gets as
            keyword arguments.
        targets: Array with ``num_samples`` rows, such as int64 classes from 0, or a dictionary of
            such arrays. None: the objective gets the model's own inputs, as for an autoencoder.
        weights: ``[num_samples]``, at least 0: how much each sample counts in losses and metrics.
            None where each counts once. A `Dataset` makes them float32.
        is_series: Whether neighbours belong together, as steps of a time series or windows of a
            text do. Held-out samples are then the last ones, not drawn from among the others.
    """

    inputs: Columns
    targets: Columns | None = None
    weights: NDArray[Any] | None = None
    is_series: bool = False

    def __len__(self) -> int:
        return len(next(iter(columns_of(self.inputs).values())))

    @functools.cached_property
    def columns(self) -> dict[str, Column]:
        """All arrays, by a name for messages: ``inputs``, ``targets.boxes``, ``weights``."""
        columns = columns_of(self.inputs, "inputs")
        if self.targets is not None:
            columns |= columns_of(self.targets, "targets")
        return columns if self.weights is None else columns | {"weights": self.weights}

    @property
    def arrays(self) -> tuple[Column, Column]:
        """Inputs and targets, where each is one array.

        Raises:
            RequestError: There are several inputs or targets, or no targets.
        """
        self.check_whole("this")
        if not isinstance(self.inputs, np.ndarray) or not isinstance(self.targets, np.ndarray):
            raise RequestError(
                f"the samples are {', '.join(self.columns)}, expected one array of inputs and one "
                "of targets"
            )
        return self.inputs, self.targets

    def check_whole(self, what: str) -> None:
        """Raise a RequestError where the samples are not all here as arrays.

        Args:
            what: That needs them, for the message.
        """

    @property
    def identity(self) -> str | None:
        """What stands for the samples where these are not here to be looked at; None else."""
        return None

    def nbytes(self, start: int = 0, stop: int | None = None) -> int:
        """Return the memory that samples take, each byte of overlapping windows once.

        Args:
            start: Index of the first sample, from 0. Default 0.
            stop: The one after the last; None for all.
        """
        ranges = sorted(
            np.lib.array_utils.byte_bounds(part)
            for column in self.columns.values()
            if (part := column[start:stop]).size
        )
        total, end = 0, 0
        for first, last in ranges:
            total += max(0, last - max(first, end))
            end = max(end, last)
        return min(total, sum(column[start:stop].nbytes for column in self.columns.values()))


@dataclasses.dataclass(frozen=True)
class Loaded(Split):
    """Samples that a PyTorch dataset or loader gives when they are asked for.

    The arrays are the first two samples alone, which tell the kind of all; see `samples_from`.

    Attributes:
        loading: How they are got.
    """

    loading: Loading = dataclasses.field(kw_only=True)

    def __len__(self) -> int:
        if self.loading.num_samples is None:
            raise RequestError(
                f"a stream, {type(self.loading.dataset).__name__}, does not say how long it is",
                hint="Say it: tarmac.data.samples_from(stream, num_samples=N), or for train "
                "steps_per_epoch=N.",
            )
        return self.loading.num_samples

    def with_steps(self, batch_size: int) -> Loaded:
        """Return a stream whose epoch is counted in steps as one of so many samples."""
        steps = self.loading.steps_per_epoch
        if steps is None:
            return self
        loading = dataclasses.replace(self.loading, num_samples=steps * batch_size)
        return dataclasses.replace(self, loading=loading)

    def check_whole(self, what: str) -> None:
        """Raise a RequestError."""
        raise RequestError(
            f"{what} needs all samples as arrays, and they come from a "
            f"{type(self.loading.loader or self.loading.dataset).__name__}",
            hint="Give the dataset arrays: Split(inputs, targets).",
        )

    @property
    def identity(self) -> str:
        """What it is and how long; no sample is read for it."""
        return self.loading.identity

    def nbytes(self, start: int = 0, stop: int | None = None) -> int:
        """Return the memory that samples would take as arrays."""
        count = len(range(*slice(start, stop).indices(len(self))))
        return count * sum(column[:1].nbytes for column in self.columns.values())


def samples_from(
    source: Any,
    *,
    inputs: Names = None,
    targets: Names = None,
    weights: str | None = None,
    num_samples: int | None = None,
    steps_per_epoch: int | None = None,
    num_workers: int | None = None,
) -> Loaded:
    """Take the samples of a split from a PyTorch dataset or `DataLoader`.

    `Dataset` does that itself where nothing needs to be said. Samples are tensors or arrays, pairs
    of inputs and targets, triples with weights, or dictionaries, as Hugging Face's `datasets` has.

    Args:
        source: A map-style dataset, an iterable one, or a `DataLoader` of either.
        inputs: For samples that are dictionaries: name or names of the inputs. Default: all keys
            except targets and weights.
        targets: For samples that are dictionaries: name or names of the targets. Default: none.
        weights: The name of their weights.
        num_samples: How many a stream has that does not say so itself.
        steps_per_epoch: How many steps of training make an epoch of a stream, instead.
        num_workers: Processes that read; by default those of the `DataLoader`, or none.

    Raises:
        RequestError: It is nothing of these, gives no numbers, or fails on its first sample.
    """
    loading = loading_of(
        source,
        Naming(inputs=inputs, targets=targets, weights=weights),
        num_samples=num_samples,
        steps_per_epoch=steps_per_epoch,
        num_workers=num_workers,
    )
    first = loading.first()
    if not any(name.partition(".")[0] == "inputs" for name in first):
        raise RequestError("a sample has no inputs beside its targets and weights")
    return Loaded(
        _of_part(first, "inputs"), _of_part(first, "targets"), first.get("weights"), loading=loading
    )


def _with_kind(where: str, split: Split, part: str, values: NDArray[Any], kind: type) -> Split:
    """Return a split of which a part is of the type that losses and metrics take."""
    if isinstance(split, Loaded):
        raise RequestError(
            f"{where}.{part} are {values.dtype} as they are loaded, expected {np.dtype(kind)}",
            hint=f"Let the dataset give them so: tensor.to(torch.{np.dtype(kind)}).",
        )
    changed: dict[str, Any] = {part: values.astype(kind)}
    return dataclasses.replace(split, **changed)


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Training and test samples of one kind.

    Attributes:
        name: For messages and run records.
        train: What a model may be fitted to and chosen on: arrays as a `Split`, or what
            `samples_from` takes, such as a PyTorch `DataLoader`.
        test: What it is scored on, once; likewise.
        num_classes: Targets are classes below this, which become int64 where they are narrower;
            None where they are something else.
        note: What whoever trains on them must know, such as that they are made up; it is said, and
            recorded.
        features: The names of a row's values, where the inputs are one table ``[num_samples, n]``;
            predictions take columns by them.
        classes: The names of the classes in the order of their numbers, where they have any.
        validation: What choices are judged on: every epoch, and each network of a search. Like
            ``train``. None where such samples are held out of ``train``; see `hold_out`.

    Raises:
        RequestError: The arrays do not fit together.
    """

    name: str
    train: Split
    test: Split
    num_classes: int | None = None
    note: str = ""
    features: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    validation: Split | None = None

    def __post_init__(self) -> None:
        for part, split in self.parts().items():
            where = f"dataset {self.name!r}: {part}"
            if not isinstance(split, Split):
                object.__setattr__(self, part, _loaded(where, split))
        for part, split in self.parts().items():
            where = f"dataset {self.name!r}: {part}"
            check_columns(where, split.columns)
            known = split
            if split.weights is not None:
                check_weights(where, split.weights)
                if split.weights.dtype != np.float32:
                    known = _with_kind(where, known, "weights", split.weights, np.float32)
            if self.num_classes is not None:
                classes = check_classes(where, split.targets, self.num_classes)
                if classes.dtype != np.int64:
                    known = _with_kind(where, known, "targets", classes, np.int64)
            object.__setattr__(self, part, known)
        for part, split in self.parts().items():
            self._check_alike(part, split)
        self._check_names()

    def parts(self) -> dict[str, Split]:
        """Return the splits that it has by their names, ``train`` first."""
        parts = {"train": self.train, "test": self.test}
        return parts if self.validation is None else parts | {"validation": self.validation}

    @functools.cached_property
    def sample_shape(self) -> SampleShape:
        """The shape of one sample, e.g. ``(28, 28)``; that of each part by its name."""
        inputs = self.train.inputs
        if isinstance(inputs, Mapping):
            return {name: column.shape[1:] for name, column in inputs.items()}
        return inputs.shape[1:]

    @functools.cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change with any byte of the data.

        Of an array of more than 256 MiB they see its shape and 256 evenly spaced MiB, so that a
        memory-mapped file need not be read from end to end. Of samples that a dataset or loader of
        PyTorch gives they see its kind and its length alone.
        """
        digest = hashlib.blake2b(digest_size=8)
        for split in self.parts().values():
            if split.identity is not None:
                kinds = [f"{name} {c.dtype} {c.shape[1:]}" for name, c in split.columns.items()]
                digest.update("; ".join([split.identity, *kinds]).encode())
                continue
            for column in split.columns.values():
                digest_array(digest, column)
        return digest.hexdigest()

    def _check_names(self) -> None:
        """Refuse names that are not one for each value of a row, or for each class."""
        where = f"dataset {self.name!r}"
        if self.features and self.sample_shape != (len(set(self.features)),):
            raise RequestError(
                f"{where} has {len(set(self.features))} names of features for samples of "
                f"{self.sample_shape}"
            )
        if self.classes and self.num_classes != len(set(self.classes)):
            raise RequestError(
                f"{where} has {len(set(self.classes))} names for {self.num_classes} classes"
            )

    def _check_alike(self, part: str, split: Split) -> None:
        """Refuse samples that are of another kind than those that are trained on."""
        where = f"dataset {self.name!r}"
        train, test = self.train.columns, split.columns
        if train.keys() != test.keys() and (train.keys() ^ test.keys()) != {"weights"}:
            raise RequestError(
                f"{where} has {', '.join(train)} in train and {', '.join(test)} in {part}"
            )
        for name, column in train.items():
            other = test.get(name, column)
            if column.shape[1:] != other.shape[1:]:
                what = "samples" if name == "inputs" else name
                raise RequestError(
                    f"{where}: {what} are {column.shape[1:]} in train and {other.shape[1:]} in "
                    f"{part}"
                )
            if column.dtype != other.dtype:
                raise RequestError(
                    f"{where}: {name} are {column.dtype} in train and {other.dtype} in {part}"
                )


def columns_of(columns: Columns, name: str = "") -> dict[str, Column]:
    """Return the arrays of ``columns``: by ``name``, or by ``name.KEY`` where they have keys."""
    if isinstance(columns, Mapping):
        return {f"{name}.{key}" if name else key: column for key, column in columns.items()}
    return {name: columns}


def slice_columns(columns: Columns, start: int, stop: int) -> Columns:
    """Return views of a range of samples, in the form that ``columns`` has."""
    if isinstance(columns, Mapping):
        return {name: column[start:stop] for name, column in columns.items()}
    return columns[start:stop]


def _loaded(where: str, source: Any) -> Loaded:
    try:
        return samples_from(source)
    except RequestError as error:
        raise RequestError(f"{where}: {error.message}", hint=error.hint) from error


def _of_part(columns: Mapping[str, Column], part: str) -> Any:
    """Return what of a split's columns is of one part: an array, a dictionary, or None."""
    named = {
        name.partition(".")[2]: column
        for name, column in columns.items()
        if name.partition(".")[0] == part
    }
    return named.get("", named or None)
