"""What a PyTorch dataset or loader gives: in which way it is read, how long it is, its kind.

PyTorch itself is imported only where something of its own is given.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import operator
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tarmac.errors import RequestError, TarmacError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from tarmac.data.naming import Naming

# Of a DataLoader, what a loader of Tarmac's own takes over.
_OPTIONS = ("prefetch_factor", "timeout", "multiprocessing_context", "worker_init_fn")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loading:
    """How samples are got from what a user has.

    Attributes:
        dataset: What is asked for samples by index, or iterated.
        naming: Parts of a sample that are inputs, targets and weights.
        is_stream: Whether samples come in an order of the source's own.
        loader: A `DataLoader` that is iterated as it is, for it has an order or a state of its own;
            None where Tarmac makes one.
        num_samples: How many there are; None where that is not known.
        steps_per_epoch: So many make an epoch of a stream; None for ``num_samples``.
        collate: Makes a batch of samples; None for stacking.
        num_workers: Processes that read; 0 for the training's own.
        batch_size: Batch size of the user's `DataLoader`. None without a loader or a fixed size.
        options: Further arguments of the loader.
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
        """Whether its loader tells where it is, and goes on from there."""
        return all(hasattr(self.loader, name) for name in ("state_dict", "load_state_dict"))

    @property
    def identity(self) -> str:
        """What of it can be told without reading it: what it is and how long."""
        kind = type(self.dataset)
        return f"{kind.__module__}.{kind.__qualname__} {self.num_samples}"

    def first(self) -> dict[str, NDArray[Any]]:
        """Return the first two samples, or the only one, as arrays by the names of columns.

        Raises:
            RequestError: It has none, fails, or gives what is no array of numbers.
        """
        return {name: _stacked(name, rows) for name, rows in self._first_rows().items()}

    def _first_rows(self) -> dict[str, list[Any]]:
        """Return the first rows of each column."""
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
            each = [self.naming.leaves(sample) for sample in samples]
            return {name: [as_array(leaves.get(name)) for leaves in each] for name in each[0]}
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
    """Find out how a dataset or a loader is read.

    Args:
        source: A map-style dataset, an iterable one, or a `DataLoader`.
        naming: Parts of a sample that are inputs, targets and weights.
        num_samples: Number of samples in a stream that does not report its length. At least 1.
        steps_per_epoch: Training steps per epoch of a stream. At least 1. None: ``num_samples``
            decides.
        num_workers: Processes that read; by default those of a `DataLoader`, or none.

    Raises:
        RequestError: It is none of these, or a length is given to what has one.
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
            f"it is a {type(dataset).__name__}, which is iterated and is no IterableDataset",
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
    """Return a part of a sample, or of a batch, as an array.

    Numbers of Python become int64 and float32, which is what models and losses take.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return np.asarray(value.float() if "bfloat16" in str(value.dtype) else value.numpy())
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def in_one_line(error: BaseException) -> str:
    """Say what an error is and where it was raised: ``ValueError: no such word (words.py:12)``."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[-1].strip()}" if lines else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text


def _of_loader(loader: Any, naming: Naming) -> Loading:
    from torch.utils import data  # noqa: PLC0415 - it is here: the loader is of it

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
    """Whether what a loader hands over are batches of sizes that nobody has told."""
    if not _is_loader(source):
        return False
    from torch.utils import data  # noqa: PLC0415 - as above

    return type(source.batch_sampler) is not data.BatchSampler and (
        source.batch_sampler is not None or source.batch_size is None
    )


def _is_iterable_dataset(dataset: Any) -> bool:
    """Whether a dataset is iterated: PyTorch's kind and Hugging Face's, or all else but indexed."""
    if _is_of_kind(dataset, "IterableDataset"):
        return True
    is_indexed = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    return hasattr(dataset, "__iter__") and not is_indexed


def _is_of_kind(dataset: Any, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(dataset).__mro__)


def _length(dataset: Any) -> int | None:
    # What is iterated need not have one; of PyTorch's classes some raise the one, some the other.
    with contextlib.suppress(TypeError, NotImplementedError):
        return len(dataset)
    return None


def _tried(what: str, get: Callable[[], Any]) -> Any:
    """Return what ``get`` does, and say of an error where it came from."""
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
            hint="Name the parts that are wanted: samples_from(..., inputs=..., targets=...).",
        )
    return stacked
