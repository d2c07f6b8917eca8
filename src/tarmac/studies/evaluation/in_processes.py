"""Trains networks one per process: what one of them does to its process harms no other."""

from __future__ import annotations

import dataclasses
import os
import selectors
from typing import TYPE_CHECKING, Any

from tarmac.files import remove_abandoned
from tarmac.processes import LOOK_EVERY_S
from tarmac.studies.evaluation.interface import Progress, Result
from tarmac.studies.evaluation.workers import start_worker, was_asked_to_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from tarmac.processes import Worker
    from tarmac.studies.evaluation.interface import Candidate, EpochReporter
    from tarmac.studies.evaluation.slots import Slot

# Between two checkpoints of a training that may be cut short, in seconds.
_CHECKPOINT_EVERY_S = 60.0

# What each process runs.
PROGRAM = "tarmac.studies.evaluation.worker"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """What all networks of a study share.

    Attributes:
        workload: What is trained, as `tarmac.workloads.find_workload` takes it.
        train_size: How many samples to train on.
        validation_size: How many to hold out.
        validation_split: How samples are held out, as `tarmac.data.hold_out` takes it. Default
            ``auto``.
        validation_seed: By which they are drawn, the same for networks of any seed.
        runs: Where runs' directories are made.
        logs: Where processes write what they print.
        keeps_checkpoints: Whether a training that is cut short goes on from a checkpoint, wherever
            it is begun again, rather than from its start.
    """

    workload: str
    train_size: int
    validation_size: int
    validation_split: str = "auto"
    validation_seed: int = 0
    runs: Path
    logs: Path
    keeps_checkpoints: bool = False


class ProcessEvaluator:
    """Trains each network by `tarmac.training` in a process; several at a time.

    Processes live on from network to network, because importing PyTorch takes a second, and are
    replaced after a failure.

    Args:
        training: What all networks share.
        slots: Where they train, one for each process.
        halted: Whether to give up what is under way; asked several times a second.
    """

    def __init__(
        self, training: Training, slots: Sequence[Slot], halted: Callable[[], bool]
    ) -> None:
        self._training = training
        self._slots = slots
        self._halted = halted
        self._workers: dict[int, Worker] = {}
        self._epoch_s = _CHECKPOINT_EVERY_S

    def evaluate(self, candidates: Iterable[Candidate], report: EpochReporter) -> Iterator[Result]:
        """Train candidates, each as soon as there is room; see `Evaluator.evaluate`.

        Args:
            candidates: The next is taken when a process is free, and no earlier.
            report: Called after every epoch of each.
        """
        left: Iterator[Candidate] | None = iter(candidates)
        busy: dict[int, Candidate] = {}
        selector = selectors.DefaultSelector()
        try:
            while not self._halted():
                for index in range(len(self._slots)):
                    if index in busy or left is None:
                        continue
                    candidate = next(left, None)
                    if candidate is None:
                        left = None
                        break
                    worker = self._worker(index)
                    worker.send(**self._job(candidate, self._slots[index]))
                    busy[index] = candidate
                    selector.register(worker.output, selectors.EVENT_READ, index)
                if not busy:
                    return
                for key, _ in selector.select(LOOK_EVERY_S):
                    result = self._hear(key.data, busy[key.data], report)
                    if result is not None:
                        selector.unregister(key.fileobj)
                        del busy[key.data]
                        if result.error is not None or self._workers[key.data].has_ended:
                            self._workers.pop(key.data).kill()
                        yield result
        finally:
            selector.close()
            for index in busy:
                self._workers.pop(index).kill()

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def _worker(self, index: int) -> Worker:
        if index not in self._workers:
            log = self._training.logs / f"worker-{os.getpid()}-{index}.log"
            self._workers[index] = start_worker(PROGRAM, self._slots[index].num_threads, log)
        return self._workers[index]

    def _job(self, candidate: Candidate, slot: Slot) -> dict[str, Any]:
        training = self._training
        every: dict[str, int] = {}
        if training.keeps_checkpoints:
            every["checkpoint_every"] = max(1, int(_CHECKPOINT_EVERY_S / self._epoch_s))
        return {
            **every,
            **dataclasses.asdict(candidate),
            "settings": dict(candidate.settings),
            "workload": training.workload,
            "train_size": training.train_size,
            "validation_size": training.validation_size,
            "validation_split": training.validation_split,
            "validation_seed": training.validation_seed,
            "output": str(training.runs / f"{candidate.number:05d}"),
            "devices": slot.device,
        }

    def _hear(self, index: int, candidate: Candidate, report: EpochReporter) -> Result | None:
        """Take what a process says; return its candidate's result once there is one."""
        worker = self._workers[index]
        messages = worker.receive()
        if messages is None:
            if was_asked_to_end(worker):
                return Result(number=candidate.number, stopped=True)
            why = worker.why_ended()
            # Nobody else comes to a candidate's run again.
            run = self._training.runs / f"{candidate.number:05d}"
            for directory in (run, *run.glob("*/"), *run.glob("*/checkpoints/")):
                remove_abandoned(directory)
            return Result(number=candidate.number, error=why)
        for message in messages:
            if "epoch" in message:
                progress = Progress(
                    number=candidate.number, epoch=message["epoch"], metrics=message["metrics"]
                )
                self._epoch_s = max(progress.metrics["seconds"], _CHECKPOINT_EVERY_S / 1000)
                worker.send(stop=report(progress))
            elif "failed" in message:
                return Result(number=candidate.number, error=message["failed"])
            elif "interrupted" in message:
                return Result(number=candidate.number, stopped=True)
            else:
                return Result(
                    number=candidate.number, metrics=message["done"], stopped=message["stopped"]
                )
        return None
