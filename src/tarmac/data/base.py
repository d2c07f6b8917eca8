"""Datasets and splits: named arrays of samples."""

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

# An array ``[num_samples, ...]`` of numbers or bools; may be memory-mapped, or a strided view.
Column: TypeAlias = NDArray[Any]

# One array, or arrays by name if a sample has several parts.
Columns: TypeAlias = Column | Mapping[str, Column]

# The shape of one sample, or the shape of each part by name.
SampleShape: TypeAlias = tuple[int, ...] | dict[str, tuple[int, ...]]


class Progress(Protocol):
    """A callback that reports the progress of a download."""

    def __call__(self, done: int, total: int | None, file: str) -> None:
        """Report that ``done`` of ``total`` bytes of a file are downloaded; None if unknown."""


class Loader(Protocol):
    """A function that loads a dataset by its name, such as `tarmac.data.load`."""

    def __call__(self, name: str, *, progress: Progress | None = None) -> Dataset:
        """Return the dataset; ``progress`` is called during a download."""


@dataclasses.dataclass(frozen=True)
class Split:
    """Samples: inputs, targets and weights.

    Attributes:
        inputs: Array ``[num_samples, *sample_shape]`` of any type, such as uint8 images, float32
            tables or uint16 tokens. A dictionary of such arrays if the model takes several inputs;
            the model gets them as keyword arguments.
        targets: Array with ``num_samples`` rows, such as int64 classes from 0, or a dictionary of
            such arrays. None: the objective gets the model's own inputs, as for an autoencoder.
        weights: Array ``[num_samples]``, at least 0: weight of each sample in losses and metrics.
            None: all weights are 1. A `Dataset` converts weights to float32.
        is_series: Whether neighbours belong together, as steps of a time series or windows of a
            text do. Held-out samples are then the last ones, not a random draw.
    """

    inputs: Columns
    targets: Columns | None = None
    weights: NDArray[Any] | None = None
    is_series: bool = False

    def __len__(self) -> int:
        return len(next(iter(columns_of(self.inputs).values())))

    @functools.cached_property
    def columns(self) -> dict[str, Column]:
        """All arrays by name, such as ``inputs``, ``targets.boxes`` or ``weights``."""
        columns = columns_of(self.inputs, "inputs")
        if self.targets is not None:
            columns |= columns_of(self.targets, "targets")
        return columns if self.weights is None else columns | {"weights": self.weights}

    @property
    def arrays(self) -> tuple[Column, Column]:
        """The inputs and the targets as one array each.

        Raises:
            RequestError: The split has several inputs or targets, or no targets.
        """
        self.check_whole("this")
        if not isinstance(self.inputs, np.ndarray) or not isinstance(self.targets, np.ndarray):
            raise RequestError(
                f"the samples are {', '.join(self.columns)}, expected one array of inputs and one "
                "of targets"
            )
        return self.inputs, self.targets

    def check_whole(self, what: str) -> None:
        """Raise a RequestError if the samples are not in memory as arrays.

        Args:
            what: The feature that needs the arrays, for the message.
        """

    @property
    def identity(self) -> str | None:
        """A text that identifies samples that are not in memory; None for arrays."""
        return None

    def nbytes(self, start: int = 0, stop: int | None = None) -> int:
        """Return the bytes that the samples take; bytes of overlapping windows count once.

        Args:
            start: Index of the first sample, from 0. Default 0.
            stop: Index after the last sample. None: up to the end.
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
    """Samples that a PyTorch dataset or loader reads on demand.

    The arrays hold only the first two samples, for dtypes and shapes; see `samples_from`.

    Attributes:
        loading: Source of the samples and how to read it.
    """

    loading: Loading = dataclasses.field(kw_only=True)

    def __len__(self) -> int:
        if self.loading.num_samples is None:
            raise RequestError(
                f"a stream of unknown length, {type(self.loading.dataset).__name__}",
                hint="Give it: tarmac.data.samples_from(stream, num_samples=N), or for train "
                "steps_per_epoch=N.",
            )
        return self.loading.num_samples

    def with_steps(self, batch_size: int) -> Loaded:
        """Return the split; ``steps_per_epoch``, if set, determines its number of samples."""
        steps = self.loading.steps_per_epoch
        if steps is None:
            return self
        loading = dataclasses.replace(self.loading, num_samples=steps * batch_size)
        return dataclasses.replace(self, loading=loading)

    def check_whole(self, what: str) -> None:
        """Raise a RequestError, as the samples are never in memory."""
        raise RequestError(
            f"{what} needs all samples as arrays, and they come from a "
            f"{type(self.loading.loader or self.loading.dataset).__name__}",
            hint="Give the dataset arrays: Split(inputs, targets).",
        )

    @property
    def identity(self) -> str:
        """Class and length of the source; no sample is read."""
        return self.loading.identity

    def nbytes(self, start: int = 0, stop: int | None = None) -> int:
        """Return the bytes that the samples would take as arrays."""
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
    """Make a split from a PyTorch dataset or `DataLoader`.

    `Dataset` calls this function itself with the defaults. Samples are tensors or arrays, pairs of
    inputs and targets, triples with weights, or dictionaries, as in Hugging Face's `datasets`.

    Args:
        source: A map-style dataset, an iterable dataset, or a `DataLoader` of either.
        inputs: For samples that are dictionaries: name or names of the inputs. Default: all keys
            except targets and weights.
        targets: For samples that are dictionaries: name or names of the targets. Default: none.
        weights: For samples that are dictionaries: name of the weights. Default: none.
        num_samples: Number of samples of a stream that does not report its length. At least 1.
        steps_per_epoch: Training steps per epoch of a stream, instead of ``num_samples``. At
            least 1.
        num_workers: Number of processes that read samples. Default: that of the `DataLoader`,
            or 0.

    Raises:
        RequestError: The source has another type, holds no numbers, or fails on its first sample.
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
    """Return the split with one part converted to the dtype that losses and metrics take."""
    if isinstance(split, Loaded):
        raise RequestError(
            f"{where}.{part} are {values.dtype} as they are loaded, expected {np.dtype(kind)}",
            hint=f"Convert them in the dataset: tensor.to(torch.{np.dtype(kind)}).",
        )
    changed: dict[str, Any] = {part: values.astype(kind)}
    return dataclasses.replace(split, **changed)


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Training and test samples of one kind.

    Attributes:
        name: For messages and run records.
        train: Samples for training and model selection: a `Split` of arrays, or a source that
            `samples_from` takes, such as a PyTorch `DataLoader`.
        test: Samples for the final score, used once. Same types as ``train``.
        num_classes: Number of classes. Targets are below it and are converted to int64. None:
            targets are not classes.
        note: Warning for users of the dataset, such as that the samples are random. It is printed
            and recorded.
        features: Names of the columns if the inputs are one table ``[num_samples, n]``.
            Predictions select columns by these names.
        classes: Names of the classes in the order of their numbers. Empty: no names.
        validation: Samples that score every epoch, and each network of a search. Same types as
            ``train``. None: validation samples are held out of ``train``; see `hold_out`.

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
        """Return the splits by their names, ``train`` first."""
        parts = {"train": self.train, "test": self.test}
        return parts if self.validation is None else parts | {"validation": self.validation}

    @functools.cached_property
    def sample_shape(self) -> SampleShape:
        """The shape of one sample, such as ``(28, 28)``, or the shape of each part by name."""
        inputs = self.train.inputs
        if isinstance(inputs, Mapping):
            return {name: column.shape[1:] for name, column in inputs.items()}
        return inputs.shape[1:]

    @functools.cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change with any byte of the data.

        Of an array above 256 MiB, the digest covers the shape and 256 evenly spaced MiB, so that a
        memory-mapped file need not be read from end to end. Of a PyTorch dataset or loader, the
        digest covers only class, length, dtypes and shapes.
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
        """Raise a RequestError if the names do not match the features or classes in number."""
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
        """Raise a RequestError if a split differs from ``train`` in names, shapes or dtypes."""
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
    """Return the arrays by name: ``name`` for one array, ``name.KEY`` for a dictionary."""
    if isinstance(columns, Mapping):
        return {f"{name}.{key}" if name else key: column for key, column in columns.items()}
    return {name: columns}


def slice_columns(columns: Columns, start: int, stop: int) -> Columns:
    """Return views of a range of samples, in the same form as ``columns``."""
    if isinstance(columns, Mapping):
        return {name: column[start:stop] for name, column in columns.items()}
    return columns[start:stop]


def _loaded(where: str, source: Any) -> Loaded:
    try:
        return samples_from(source)
    except RequestError as error:
        raise RequestError(f"{where}: {error.message}", hint=error.hint) from error


def _of_part(columns: Mapping[str, Column], part: str) -> Any:
    """Return one part of a split's columns: an array, a dictionary, or None."""
    named = {
        name.partition(".")[2]: column
        for name, column in columns.items()
        if name.partition(".")[0] == part
    }
    return named.get("", named or None)
