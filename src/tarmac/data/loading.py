"""Read samples from PyTorch datasets and loaders: access method, length and sample layout.

PyTorch is imported only if the source is a `DataLoader`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import operator
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarmac.data.naming import Naming
from tarmac.errors import RequestError, TarmacError

# Options of the user's DataLoader that Tarmac's own loader keeps.
_OPTIONS = ("prefetch_factor", "timeout", "multiprocessing_context", "worker_init_fn")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loading:
    """How samples are read from a user's dataset or loader.

    Attributes:
        dataset: Dataset that is indexed or iterated.
        naming: Parts of a sample that are inputs, targets and weights.
        is_stream: Whether the source decides the order of the samples.
        loader: The user's `DataLoader`, if it has its own order or state and is iterated unchanged.
            None: Tarmac makes a loader.
        num_samples: Number of samples. None if unknown.
        steps_per_epoch: Training steps per epoch of a stream. None: ``num_samples`` decides.
        collate: Function that makes a batch of samples. None: samples are stacked.
        num_workers: Number of processes that read samples. 0: the training process reads.
        batch_size: Batch size of the user's `DataLoader`. None without a loader or a fixed size.
        options: Further arguments for Tarmac's loader, from the user's `DataLoader`.
    """

    dataset: Any
    naming: Naming
    is_stream: bool
    loader: Any = None
    num_samples: int | None = None
    steps_per_epoch: int | None = None
    collate: Callable[[list[Any]], Any] | None = None
    num_workers: int = 0
    batch_size: int | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def has_state(self) -> bool:
        """Whether the loader can save its position and resume from it."""
        return all(hasattr(self.loader, name) for name in ("state_dict", "load_state_dict"))

    @property
    def identity(self) -> str:
        """Class and length of the dataset; no sample is read."""
        kind = type(self.dataset)
        return f"{kind.__module__}.{kind.__qualname__} {self.num_samples}"

    def first(self) -> dict[str, NDArray[Any]]:
        """Return the first two samples, or the only sample, as arrays by column name.

        Raises:
            RequestError: The source has no samples, fails, or yields anything but numbers.
        """
        return {name: _stacked(name, rows) for name, rows in self._first_rows().items()}

    def _first_rows(self) -> dict[str, list[Any]]:
        if self.loader is not None:
            samples: list[Any] = []
            batch = _tried("batch 0", lambda: next(iter(self.loader), None))
        elif self.is_stream:
            samples = _tried("sample 0", lambda: list(itertools.islice(iter(self.dataset), 2)))
            batch = None
        else:
            count = min(2, self.num_samples or 0)
            samples = [
                _tried(f"sample {index}", partial(operator.getitem, self.dataset, index))
                for index in range(count)
            ]
            batch = None
        if batch is None and not samples:
            raise RequestError("it has no samples, expected at least 1")
        if batch is None and self.collate is None:
            rows = [self.naming.leaves(sample) for sample in samples]
            return {name: [as_array(leaves.get(name)) for leaves in rows] for name in rows[0]}
        if batch is None:
            collate = self.collate
            batch = _tried("its collate_fn", lambda: collate(samples) if collate else None)
        leaves = self.naming.leaves(batch)
        return {name: list(as_array(value)[:2]) for name, value in leaves.items()}


def loading_of(
    source: Any,
    naming: Naming,
    *,
    num_samples: int | None = None,
    steps_per_epoch: int | None = None,
    num_workers: int | None = None,
) -> Loading:
    """Return how to read a dataset or a loader.

    Args:
        source: A map-style dataset, an iterable dataset, or a `DataLoader`.
        naming: Parts of a sample that are inputs, targets and weights.
        num_samples: Number of samples in a stream that does not report its length. At least 1.
        steps_per_epoch: Training steps per epoch of a stream. At least 1. None: ``num_samples``
            decides.
        num_workers: Number of processes that read samples. Default: that of the `DataLoader`,
            or 0.

    Raises:
        RequestError: The source has another type, or it has a length and an option sets one too.
    """
    lengths = {"num_samples": num_samples, "steps_per_epoch": steps_per_epoch}
    for name, value in (lengths | {"num_workers": num_workers}).items():
        if value is not None and value < (name != "num_workers"):
            raise RequestError(f"{name} is {value}, expected at least {int(name != 'num_workers')}")
    dataset, loading = source, Loading(dataset=source, naming=naming, is_stream=False)
    if _is_loader(source):
        dataset = source.dataset
        loading = _of_loader(source, naming)
    if num_workers is not None:
        if loading.loader is not None:
            raise RequestError(
                f"num_workers is {num_workers}, and the DataLoader has an order of its own",
                hint="Give the DataLoader itself its num_workers.",
            )
        loading = dataclasses.replace(loading, num_workers=num_workers)
        if not num_workers:
            loading = dataclasses.replace(loading, options={})
    is_indexed = not _is_iterable_dataset(dataset)
    if not is_indexed and loading.loader is None and not _is_of_kind(dataset, "IterableDataset"):
        raise RequestError(
            f"it is a {type(dataset).__name__}, which is iterable, but not an IterableDataset",
            hint="Derive its class from torch.utils.data.IterableDataset: __iter__ begins anew for "
            "each epoch.",
        )
    if is_indexed and not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise RequestError(
            f"it is a {type(source).__name__}, expected a Split of arrays, a PyTorch dataset or a "
            "DataLoader"
        )
    if is_indexed and loading.loader is None:
        for name, value in lengths.items():
            if value is not None:
                raise RequestError(
                    f"{name} is given, which is for streams; this has {_length(dataset)} samples",
                    hint="To train on fewer of them: --train-size N",
                )
        return dataclasses.replace(loading, num_samples=_length(dataset))
    if num_samples is None:
        counted = source.sampler if loading.loader is not None and is_indexed else dataset
        num_samples = None if _batches_itself(source) else _length(counted)
    return dataclasses.replace(
        loading, is_stream=True, num_samples=num_samples, steps_per_epoch=steps_per_epoch
    )


def as_array(value: Any) -> NDArray[Any]:
    """Return a part of a sample or a batch as an array.

    Python numbers become int64 and float32, as models and losses expect.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return np.asarray(value.float() if "bfloat16" in str(value.dtype) else value.numpy())
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def in_one_line(error: BaseException) -> str:
    """Return an error with its source: ``ValueError: no such word (words.py:12)``."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[-1].strip()}" if lines else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text


def _of_loader(loader: Any, naming: Naming) -> Loading:
    from torch.utils import data  # noqa: PLC0415 - installed, as the loader is a PyTorch object

    collate = loader.collate_fn
    is_stream = _is_iterable_dataset(loader.dataset)
    usual = (data.RandomSampler, data.SequentialSampler)
    has_own_order = not is_stream and not (
        type(loader.batch_sampler) is data.BatchSampler
        and type(loader.sampler) in usual
        and not getattr(loader.sampler, "replacement", False)
        and len(loader.sampler) == len(loader.dataset)
    )
    has_state = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
    is_read_as_it_is = has_own_order or _batches_itself(loader) or (is_stream and has_state)
    return Loading(
        dataset=loader.dataset,
        naming=naming,
        is_stream=is_stream or is_read_as_it_is,
        loader=loader if is_read_as_it_is else None,
        collate=None if collate is data.default_collate else collate,
        num_workers=loader.num_workers,
        batch_size=loader.batch_size,
        options={name: getattr(loader, name) for name in _OPTIONS} if loader.num_workers else {},
    )


def _is_loader(source: Any) -> bool:
    return all(hasattr(source, name) for name in ("dataset", "batch_sampler", "collate_fn"))


def _batches_itself(source: Any) -> bool:
    """Return whether the source is a loader that yields batches of unknown size."""
    if not _is_loader(source):
        return False
    from torch.utils import data  # noqa: PLC0415 - as above

    return type(source.batch_sampler) is not data.BatchSampler and (
        source.batch_sampler is not None or source.batch_size is None
    )


def _is_iterable_dataset(dataset: Any) -> bool:
    """Return whether a dataset is an `IterableDataset`, or iterable and not indexed."""
    if _is_of_kind(dataset, "IterableDataset"):
        return True
    is_indexed = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    return hasattr(dataset, "__iter__") and not is_indexed


def _is_of_kind(dataset: Any, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(dataset).__mro__)


def _length(dataset: Any) -> int | None:
    # Iterable datasets may have no length; PyTorch's classes raise either error.
    with contextlib.suppress(TypeError, NotImplementedError):
        return len(dataset)
    return None


def _tried(what: str, get: Callable[[], Any]) -> Any:
    """Return the result of ``get``; turn its errors into a RequestError with their source."""
    try:
        return get()
    except TarmacError:
        raise
    except Exception as error:
        raise RequestError(f"{what} fails: {in_one_line(error)}") from error


def _stacked(name: str, rows: list[Any]) -> NDArray[Any]:
    shapes = [row.shape for row in rows]
    if len(set(shapes)) > 1:
        raise RequestError(
            f"{name} are of shape {shapes[1]} in sample 1 (from 0), and {shapes[0]} in sample 0",
            hint="Bring all samples to one shape, by cropping or padding.",
        )
    stacked = np.stack(rows)
    if stacked.dtype.kind not in "iufb":
        raise RequestError(
            f"{name} are {stacked.dtype} in sample 0, expected numbers or bools",
            hint="Name the parts that you need: samples_from(..., inputs=..., targets=...).",
        )
    return stacked
