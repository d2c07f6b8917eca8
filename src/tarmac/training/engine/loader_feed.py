"""A feed of samples from a user's dataset or loader; see `tarmac.data.samples_from`."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import traceback
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import data as torch_data

from tarmac.data import Dataset, Loaded, Subset, in_one_line
from tarmac.errors import TarmacError
from tarmac.training.engine.columns import Arrangement, view
from tarmac.training.engine.feeds import rows_tensor
from tarmac.training.engine.loader_samples import (
    BadSampleError,
    Indexed,
    Kind,
    WorkerStart,
    starting_workers,
)
from tarmac.training.engine.loader_stream import Stream, end_workers

if TYPE_CHECKING:
    from tarmac.training.engine.feeds import Spans

    Batches = Generator[tuple[torch.Tensor, ...], None, None]

# PyTorch's message for a dead worker, which may be inside another message when a signal interrupts.
_GONE = re.compile(r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\)")
_CAUGHT = re.compile(r"Caught (\w+) in DataLoader worker process (\d+)")


class LoaderFeed:
    """A feed of a user's dataset or loader, read by worker processes if it has some.

    A map-style dataset is read in the requested order. A stream has its own order, from which an
    epoch's positions are taken. Every replica reads the stream from its beginning and keeps its own
    part, so that all replicas together take each sample once.

    Args:
        where: Name of the dataset and split, for messages.
        samples: Samples of the split to read; of a stream the first samples.
        batch_size: Samples that a stream's loader reads at a time, if the dataset sets no batch
            size.
        device: Device that receives the batches.
        seed: Seed of the training, from which each sample's draws follow.
        num_classes: Upper bound, exclusive, of the targets; None if they are no classes.
        keeps_workers: Whether workers persist between epochs, as those of a training do.
    """

    def __init__(
        self,
        where: str,
        samples: Subset,
        batch_size: int,
        device: torch.device,
        *,
        seed: int,
        num_classes: int | None,
        keeps_workers: bool = True,
    ) -> None:
        split = samples.split
        assert isinstance(split, Loaded)
        self._where = where
        self._device = device
        self._arrangement = Arrangement(split)
        self._columns = tuple(split.columns.values())
        self._keys = _Keys()
        self._epoch = 0
        loading, kind = split.loading, Kind.of(split, num_classes)
        on_cuda = device.type == "cuda"
        options: dict[str, Any] = dict(loading.options)
        options |= {
            "num_workers": loading.num_workers,
            "persistent_workers": keeps_workers and loading.num_workers > 0,
            "pin_memory": on_cuda,
            "worker_init_fn": WorkerStart(options.get("worker_init_fn")),
            # Otherwise the loader would draw from the same generator as dropout.
            "generator": torch.Generator().manual_seed(seed % 2**63),
        }
        self._reading: Iterator[Any] = iter(())
        self._stream: Stream | None = None
        self._loader: torch_data.DataLoader[Any] | None = None
        if loading.is_stream:
            self._stream = Stream(kind, loading.batch_size or batch_size, seed, options)
        else:
            self._rows = rows_tensor(samples)
            self._loader = torch_data.DataLoader(
                Indexed(kind, seed),
                batch_sampler=self._keys,
                collate_fn=_as_it_is,
                **options,
            )

    def start_epoch(self, epoch: int) -> None:
        """Select the draws of an epoch, from 0, for the next call of `batches`."""
        self._epoch = epoch

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield batches that workers, or this process, have read."""
        full = [span for span in spans if span[1] > span[0]]
        read = self._of_stream(full) if self._stream else self._of_order(order, full)
        with contextlib.closing(read):
            for start, stop in spans:
                if start == stop:
                    yield self.zeros(0)
                    continue
                with self._explained():
                    batch = next(read)
                yield tuple(tensor.to(self._device, non_blocking=True) for tensor in batch)

    def samples(self, *handed: torch.Tensor) -> tuple[Any, Any]:
        """Return the batch as inputs and targets."""
        return self._arrangement.batch(handed)

    def weights(self, *handed: torch.Tensor) -> torch.Tensor | None:
        """Return the weights in the batch."""
        return self._arrangement.weights(handed)

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return a batch of zeros."""
        return tuple(
            torch.zeros(
                (num_samples, *column.shape[1:]), dtype=view(column[:0]).dtype, device=self._device
            )
            for column in self._columns
        )

    def close(self) -> None:
        """Stop the workers now, even if an error's traceback still refers to their loader."""
        end_workers(self._reading if self._stream is None else self._stream.reading)

    def state(self) -> dict[str, torch.Tensor]:
        """Return the state of a stream's own loader; empty if it has none."""
        return {} if self._stream is None else self._stream.state()

    def set_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Continue from a state that `state` returned, at the next `batches`."""
        if self._stream is not None and state:
            self._stream.set_state(state)

    def _of_order(self, order: torch.Tensor, spans: Spans) -> Batches:
        assert self._loader is not None
        indices = self._rows[order].tolist()
        self._keys.batches = [
            [(self._epoch, index) for index in indices[start:stop]] for start, stop in spans
        ]
        with starting_workers():
            self._reading = iter(self._loader)
        yield from self._reading

    def _of_stream(self, spans: Spans) -> Batches:
        assert self._stream is not None
        self._stream.begin(self._epoch)
        for start, stop in spans:
            yield self._stream.take(start, stop)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except TarmacError as error:
            self.close()
            raise TarmacError(f"{self._where}: {error.message}", hint=error.hint) from error
        except Exception as error:
            self.close()
            place = "" if self._stream is None else f", {self._stream.place}"
            raise explain_loader_error(self._where + place, error) from error


@dataclasses.dataclass(frozen=True)
class LoaderFeeds:
    """An opener of feeds for a dataset's splits.

    Attributes:
        dataset: Dataset that the splits belong to.
        device: Device that receives the batches.
        seed: Seed of the training, from which each sample's draws follow.
    """

    dataset: Dataset
    device: torch.device
    seed: int

    def open(self, samples: Subset, batch_size: int, *, keeps_workers: bool) -> LoaderFeed:
        """Open a feed; see `LoaderFeed`."""
        named = self.dataset.parts().items()
        part = next(name for name, split in named if split is samples.split)
        return LoaderFeed(
            f"dataset {self.dataset.name!r}: {part}",
            samples,
            batch_size,
            self.device,
            seed=self.seed,
            num_classes=self.dataset.num_classes,
            keeps_workers=keeps_workers,
        )


def is_loader_error(error: BaseException) -> bool:
    """Return whether an error is PyTorch's message that a loader's worker is dead."""
    return bool(_GONE.search(str(error)))


def _is_cut_off(error: BaseException) -> bool:
    """Return whether a worker died while sending its batch, before PyTorch noticed its end."""
    if not isinstance(error, (EOFError, ConnectionError)):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals["__name__"].startswith("multiprocessing.")


def explain_loader_error(where: str, error: BaseException) -> TarmacError:
    """Return an error that says where reading failed, and what to do.

    Args:
        where: The dataset and its split.
        error: Exception that the loader raised.
    """
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    caught, last = _CAUGHT.search(str(error)), lines[-1] if lines else ""
    worker = f" in worker {caught[2]}" if caught else ""
    resume = "Resume from the newest checkpoint: tarmac train --resume latest"
    if is_loader_error(error) or _is_cut_off(error):
        reason = " ".join(lines) or "it ended before it delivered its batch"
        return TarmacError(
            f"{where}: a worker of its loader is gone: {reason}",
            hint="Killed workers have most often run out of memory: give the loader fewer "
            f"num_workers or a smaller prefetch_factor.\n{resume}",
        )
    if isinstance(error, BadSampleError):
        _, _, after = last.rpartition("BadSampleError: ")
        return TarmacError(f"{where}{worker}: {after or last}", hint=resume)
    reason = last if caught else in_one_line(error)
    return TarmacError(f"{where}{worker}: reading fails: {reason}", hint=resume)


class _Keys:
    """The next batches for a loader's workers; PyTorch reads each of them once."""

    def __init__(self) -> None:
        self.batches: Sequence[Sequence[tuple[int, int]]] = ()

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        return iter([list(batch) for batch in self.batches])

    def __len__(self) -> int:
        return len(self.batches)


def _as_it_is(batch: Any) -> Any:
    return batch
