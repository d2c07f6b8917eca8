"""A stream of samples in its own order, read by position."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch.utils import data as torch_data

from tarmac.errors import RequestError, TarmacError
from tarmac.training.engine.loader_samples import Kind, starting_workers
from tarmac.training.engine.sample_draws import drawing_from

# Mixes the epoch into the seed of its draws. A large odd number.
_EPOCH_STRIDE = 0x94D049BB133111EB


class Stream:
    """A reader that takes samples from a stream by their positions in an epoch, forward only.

    Every epoch restarts the stream, with the same draws each time that epoch is read. If the stream
    ends early and the epoch's length comes from ``steps_per_epoch``, it restarts in the epoch.

    Args:
        kind: Shapes and types of the samples, and how to read them.
        batch_size: Samples that a worker reads at a time, if the loader is Tarmac's.
        seed: Seed of the training, from which the stream's draws follow.
        options: Keyword arguments for the `DataLoader` that Tarmac makes.

    Attributes:
        reading: Iterator over the loader's batches of the current epoch.
    """

    def __init__(self, kind: Kind, batch_size: int, seed: int, options: Mapping[str, Any]) -> None:
        self._kind = kind
        self._seed = seed
        self._loader = kind.loading.loader
        self._takes_batches = self._loader is not None
        if self._loader is None:
            self._loader = torch_data.DataLoader(
                kind.loading.dataset,
                batch_size=batch_size,
                collate_fn=partial(_gathered, kind),
                # Persistent workers would continue draws that cannot be repeated after a stop, and
                # ``set_epoch`` would not reach their copy of the dataset.
                **{**options, "persistent_workers": False},
            )
        self.reading: Iterator[Any] = iter(())
        self._epoch = -1
        self._position = 0
        # Samples that were read but not taken. They begin at the position.
        self._rest: tuple[torch.Tensor, ...] = ()
        self._saved: dict[str, Any] | None = None

    @property
    def place(self) -> str:
        """The stream's position in words, for messages."""
        return f"after {self._position} samples of epoch {self._epoch + 1}"

    def begin(self, epoch: int) -> None:
        """Begin an epoch, or continue within it if a state was set."""
        saved, self._saved = self._saved, None
        self._epoch, self._position, self._rest = epoch, 0, ()
        if saved is not None:
            self._loader.load_state_dict(saved["loader"])
        if saved is not None and saved["epoch"] == epoch:
            self._position, self._rest = saved["position"], tuple(saved["rest"])
            self._restart()
            return
        if saved is not None:
            # A loader applies its state to the next iterator. The one after is the next epoch's.
            next(iter(self._loader), None)
        for part in (self._kind.loading.dataset, getattr(self._loader, "sampler", None)):
            set_epoch = getattr(part, "set_epoch", None)
            if callable(set_epoch):
                set_epoch(epoch)
        self._restart()

    def take(self, start: int, stop: int) -> tuple[torch.Tensor, ...]:
        """Return the samples at positions of the epoch, and skip those before.

        Raises:
            TarmacError: The stream has ended.
        """
        while self._position < start:
            self._cut(min(start - self._position, self._available()))
        parts = []
        while self._position < stop:
            parts.append(self._cut(min(stop - self._position, self._available())))
        if len(parts) == 1:
            return parts[0]
        return tuple(torch.cat(of_column) for of_column in zip(*parts, strict=True))

    def state(self) -> dict[str, torch.Tensor]:
        """Return the stream's position and loader state; empty if the loader has no state."""
        if not self._kind.loading.has_state or self._epoch < 0:
            return {}
        buffer = io.BytesIO()
        state = {
            "epoch": self._epoch,
            "position": self._position,
            "rest": [tensor.clone() for tensor in self._rest],
            "loader": self._loader.state_dict(),
        }
        torch.save(state, buffer)
        return {"stream": torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)}

    def set_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Continue from a state that `state` returned, at the next `begin`.

        Raises:
            RequestError: The loader has no ``load_state_dict``.
        """
        if not self._kind.loading.has_state:
            raise RequestError(
                "the checkpoint has the state of a loader, but this loader has no load_state_dict",
                hint="The workload was changed since. Start a new run.",
            )
        # Unpickle nothing but tensors, numbers, texts and containers from a file.
        self._saved = torch.load(io.BytesIO(state["stream"].numpy().tobytes()), weights_only=True)

    def _restart(self) -> None:
        if not self._kind.loading.has_state:
            # A generator continues from epoch to epoch, and no checkpoint has its state.
            for part in (self._loader, getattr(self._loader, "sampler", None)):
                generator = getattr(part, "generator", None)
                if isinstance(generator, torch.Generator):
                    generator.manual_seed(self._seed_here() % 2**63)
        # Workers of a user's own loader start in the user's environment.
        starting = contextlib.nullcontext() if self._takes_batches else starting_workers()
        with drawing_from(self._seed_here()), starting:
            self.reading = iter(self._loader)

    def _available(self) -> int:
        """Return the number of samples that are read but not taken, at least one."""
        if self._rest and len(self._rest[0]):
            return len(self._rest[0])
        batch = self._next()
        if batch is None and self._kind.loading.steps_per_epoch is not None:
            # Steps define the epoch, however often it restarts the stream.
            self._restart()
            batch = self._next()
        if batch is None:
            raise TarmacError(
                f"the stream ends after {self._position} samples, "
                f"expected {self._kind.loading.num_samples}",
                hint="Give their number: tarmac.data.samples_from(stream, num_samples=N), or for "
                "train steps_per_epoch=N.",
            )
        self._rest = self._kind.take(batch, self._position) if self._takes_batches else batch
        return self._available()

    def _next(self) -> Any:
        """Return the next batch, or None at the end."""
        if self._kind.loading.num_workers:
            return next(self.reading, None)
        # This process reads the batch, which must not use the training's random draws.
        with drawing_from(self._seed_here()):
            return next(self.reading, None)

    def _seed_here(self) -> int:
        return self._seed + self._epoch * _EPOCH_STRIDE + self._position

    def _cut(self, count: int) -> tuple[torch.Tensor, ...]:
        taken = tuple(tensor[:count] for tensor in self._rest)
        self._rest = tuple(tensor[count:] for tensor in self._rest)
        self._position += count
        return taken


def end_workers(reading: Iterator[Any]) -> None:
    """Stop the workers of a `DataLoader` that is being read, if it has some.

    PyTorch has no public method for that. It stops them only when nothing refers to the iterator.
    """
    shut_down = getattr(reading, "_shutdown_workers", None)
    if shut_down is not None:
        shut_down()


def _gathered(kind: Kind, samples: list[Any]) -> tuple[torch.Tensor, ...]:
    # A worker does not know how many samples other workers have read before.
    return kind.gather(samples, [f"{number} of a batch" for number in range(len(samples))])
