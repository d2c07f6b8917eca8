"""How samples get to a device from a user's dataset or loader: see `tarmac.data.samples_from`."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import traceback
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import data as torch_data

from tarmac.data import Loaded, in_one_line
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
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from tarmac.data import Dataset, Subset
    from tarmac.training.engine.feeds import Spans

    Batches = Generator[tuple[torch.Tensor, ...], None, None]

# How PyTorch says that a worker is gone, also where its signal comes amid something else.
_GONE = re.compile(r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\)")
_CAUGHT = re.compile(r"Caught (\w+) in DataLoader worker process (\d+)")


class LoaderFeed:
    """Batches of a user's dataset or loader, by worker processes where it has some.

    Of a map-style dataset they are those of the order that is asked for. A stream has an order of
    its own, from which an epoch's positions are taken; every replica reads it from its beginning
    and keeps its own part, so that all of them together take each sample once.

    Args:
        where: The split, for messages.
        samples: Those of the split that are read; of a stream the first ones.
        batch_size: Samples that a stream's loader reads at a time, if the dataset sets no batch
            size.
        device: Device that receives the batches.
        seed: Seed of the training, from which each sample's draws follow.
        num_classes: That targets must be below; None where they are no classes.
        keeps_workers: Whether workers stay for the next time. Those of a training do.
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
            # Else it would draw from the generator that dropout draws from.
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
        """Use the draws of an epoch, from 0, for the batches that are asked for next."""
        self._epoch = epoch

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield batches as workers, or this process, have read them."""
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
        """Return what was handed over."""
        return self._arrangement.batch(handed)

    def weights(self, *handed: torch.Tensor) -> torch.Tensor | None:
        """Return the weights among what was handed over."""
        return self._arrangement.weights(handed)

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return samples of nothing but zeros."""
        return tuple(
            torch.zeros(
                (num_samples, *column.shape[1:]), dtype=view(column[:0]).dtype, device=self._device
            )
            for column in self._columns
        )

    def close(self) -> None:
        """End the workers now, whoever still holds what they read from, as an error's traceback."""
        end_workers(self._reading if self._stream is None else self._stream.reading)

    def state(self) -> dict[str, torch.Tensor]:
        """Return where a stream's own loader is, where it tells; else nothing."""
        return {} if self._stream is None else self._stream.state()

    def set_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from a state that `state` returned, at the next `batches`."""
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
    """Opens feeds of a dataset's splits.

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
    """Whether an error is that a worker of a loader is gone, as PyTorch says it."""
    return bool(_GONE.search(str(error)))


def _is_cut_off(error: BaseException) -> bool:
    """Whether a batch was lost with the process that made it, before PyTorch noticed its end."""
    if not isinstance(error, (EOFError, ConnectionError)):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals["__name__"].startswith("multiprocessing.")


def explain_loader_error(where: str, error: BaseException) -> TarmacError:
    """Say whose worker failed at what, and what to do.

    Args:
        where: The dataset and its split.
        error: Exception that the loader raised.
    """
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    caught, last = _CAUGHT.search(str(error)), lines[-1] if lines else ""
    worker = f" in worker {caught[2]}" if caught else ""
    resume = "What was trained is in the newest checkpoint: tarmac train --resume latest"
    if is_loader_error(error) or _is_cut_off(error):
        reason = " ".join(lines) or "it ended before its batch had come"
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
    """The batches that a loader's workers are to read next, which PyTorch asks for once each."""

    def __init__(self) -> None:
        self.batches: Sequence[Sequence[tuple[int, int]]] = ()

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        return iter([list(batch) for batch in self.batches])

    def __len__(self) -> int:
        return len(self.batches)


def _as_it_is(batch: Any) -> Any:
    return batch
