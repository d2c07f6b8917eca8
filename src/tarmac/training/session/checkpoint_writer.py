"""Writing of checkpoints beside the training, which only waits for a copy of its state."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import torch

from tarmac.training.engine.state import TrainingState
from tarmac.training.session.checkpoint import portable, write_checkpoint


@contextlib.contextmanager
def writing_checkpoints(directory: Path) -> Iterator[CheckpointWriter]:
    """Yield a writer, and wait at the end for its last checkpoint.

    Args:
        directory: Directory to write the checkpoints to.

    Raises:
        StorageError: The last checkpoint could not be written, and the context raised nothing.
    """
    with ThreadPoolExecutor(1, "tarmac-checkpoint") as thread:
        writer = CheckpointWriter(directory, thread)
        yield writer
        writer.wait()


class CheckpointWriter:
    """A writer that copies a state, and writes the copy in a thread, one at a time.

    On a GPU the copy goes into pinned memory in the stream's order, so that the following steps
    need not wait for it.

    The thread calls no PyTorch operation that computes on several cores. OpenMP would give it
    threads of its own. With more threads than cores, all of them sleep instead of spinning when
    they wait for each other: steps of a small network then take 2.5 times as long.

    Args:
        directory: Directory to write the checkpoints to.
        thread: Executor with a single thread, which writes the checkpoints.
    """

    def __init__(self, directory: Path, thread: ThreadPoolExecutor) -> None:
        self._directory = directory
        self._thread = thread
        self._written: Future[Path] | None = None
        self._pinned: dict[str, torch.Tensor] = {}

    def write(self, state: TrainingState, *, is_best: bool = False) -> None:
        """Copy a state, and begin to write the copy; the state may change when this returns.

        Args:
            state: Training state to copy and write.
            is_best: Whether to keep the checkpoint as the best too.

        Raises:
            StorageError: The previous checkpoint could not be written.
        """
        # The copy reuses the memory of the previous one.
        self.wait()
        copy = dataclasses.replace(
            state,
            model=self._copies("model", state.model),
            optimizer=self._copies("optimizer", state.optimizer),
            random=self._copies("random", state.random),
            totals=self._copy("totals", state.totals),
        )
        sent = _sent({tensor.device for tensor in state.model.values() if tensor.is_cuda})
        self._written = self._thread.submit(self._write, copy, sent, is_best)

    def wait(self) -> None:
        """Wait until everything is written.

        Raises:
            StorageError: The last checkpoint could not be written.
        """
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def _write(self, copy: TrainingState, sent: list[torch.cuda.Event], is_best: bool) -> Path:
        for event in sent:
            event.synchronize()
        return write_checkpoint(self._directory, copy, is_best=is_best)

    def _copies(self, part: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: self._copy(f"{part}/{name}", value) for name, value in tensors.items()}

    def _copy(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_cuda:
            return portable(tensor)
        if name not in self._pinned:
            self._pinned[name] = torch.empty_like(tensor, device="cpu", pin_memory=True)
        return self._pinned[name].copy_(tensor.detach(), non_blocking=True)


def _sent(devices: set[torch.device]) -> list[torch.cuda.Event]:
    """Return events that fire when the copies from the devices so far are complete."""
    events = []
    for device in devices:
        # An event that spins would take a core from the training.
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # PyTorch has no type
        event.record(torch.cuda.current_stream(device))
        events.append(event)
    return events
