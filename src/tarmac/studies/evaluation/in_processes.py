"""Train one network per process, so that a crash harms no other network."""

from __future__ import annotations

import dataclasses
import os
import selectors
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.files import remove_abandoned
from tarmac.processes import LOOK_EVERY_S, Worker
from tarmac.studies.evaluation.interface import Candidate, EpochReporter, Progress, Result
from tarmac.studies.evaluation.workers import start_worker, was_asked_to_end

if TYPE_CHECKING:
    from tarmac.studies.evaluation.slots import Slot

# Seconds between two checkpoints of a training that may be interrupted.
_CHECKPOINT_EVERY_S = 60.0

# Module that each process runs.
PROGRAM = "tarmac.studies.evaluation.worker"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """The options that all trainings of a study share.

    Attributes:
        workload: Workload to train, as for `tarmac.workloads.find_workload`.
        train_size: Number of training samples.
        validation_size: Number of held-out samples.
        validation_split: How samples are held out, as for `tarmac.data.hold_out`. Default ``auto``.
        validation_seed: Seed that draws the held-out samples, the same for all networks. Default 0.
        runs: Directory for the networks' runs.
        logs: Directory for the output of processes.
        keeps_checkpoints: Whether an interrupted training resumes from a checkpoint, on any host,
            instead of restarting.
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
    """An evaluator that trains each network by `tarmac.training` in a process.

    Several processes train at the same time. A process is reused for the next network, because
    importing PyTorch takes a second, and is replaced after a failure.

    Args:
        training: Options that all trainings share.
        slots: Devices or shares of a CPU, one per process.
        halted: Returns whether to stop running trainings; called several times a second.
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
        """Train each candidate as soon as a process is free; see `Evaluator.evaluate`.

        Args:
            candidates: Candidates to train; the next is taken only when a process is free.
            report: Called after every epoch of each candidate.
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
                    result = self._on_answer(key.data, busy[key.data], report)
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
        """Stop the processes."""
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

    def _on_answer(self, index: int, candidate: Candidate, report: EpochReporter) -> Result | None:
        """Read the messages of a process; return its candidate's result once there is one."""
        worker = self._workers[index]
        messages = worker.receive()
        if messages is None:
            if was_asked_to_end(worker):
                return Result(number=candidate.number, stopped=True)
            why = worker.why_ended()
            # No later process cleans up this candidate's run.
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
