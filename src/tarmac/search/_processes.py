"""Trains networks one per process: what one of them does to its process harms no other."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
from typing import IO, TYPE_CHECKING, Any

from tarmac.errors import TarmacError
from tarmac.search._evaluator import Candidate, Progress, Result
from tarmac.storage import storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from tarmac.search._evaluator import Watch
    from tarmac.search._evaluators import Training

__all__ = ["LOOK_EVERY_S", "ProcessEvaluator", "Slot", "Worker", "train_whole"]

LOOK_EVERY_S = 0.2
_LOG_TAIL_BYTES = 4096
# A process of a search is no rank of a training, whatever started the search.
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclasses.dataclass(frozen=True)
class Slot:
    """Room for one process.

    Attributes:
        device: As PyTorch spells it.
        num_threads: Its threads on a CPU; 0 for a GPU.
    """

    device: str
    num_threads: int

    def show(self) -> str:
        """Say where it is."""
        if not self.num_threads:
            return self.device
        return f"{self.device} with {self.num_threads} thread{'s' if self.num_threads > 1 else ''}"


class Worker:
    """A process that trains one network after another, as it is told on its standard input.

    Args:
        slot: Where it trains.
        log: What it prints goes there.
        program: The module that it runs.
    """

    def __init__(self, slot: Slot, log: Path, program: str = "tarmac.search.worker") -> None:
        self.slot = slot
        self._log = log
        environment = {
            key: value for key, value in os.environ.items() if key not in _RANK_VARIABLES
        }
        if slot.num_threads:
            environment["OMP_NUM_THREADS"] = str(slot.num_threads)
        with storage_errors(log):
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as errors:
                self._log_start = errors.tell()
                self.process = subprocess.Popen(
                    [sys.executable, "-m", program, str(slot.num_threads)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=environment,
                    # Ctrl-C is for the search, which decides what becomes of its processes.
                    start_new_session=True,
                )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to: IO[bytes] = self.process.stdin
        self.output: IO[bytes] = self.process.stdout
        self._rest = b""

    def send(self, **message: Any) -> None:
        """Tell it something; a process that has ended hears nothing."""
        with contextlib.suppress(BrokenPipeError):
            self._to.write(json.dumps(message).encode() + b"\n")
            self._to.flush()

    def receive(self) -> list[dict[str, Any]] | None:
        """Return what it has said, whole lines only; None once it has ended."""
        said = os.read(self.output.fileno(), 65536)
        if not said:
            return None
        *lines, self._rest = (self._rest + said).split(b"\n")
        return [json.loads(line) for line in lines]

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what it says until it ends."""
        while (said := self.receive()) is not None:
            yield from said

    def kill(self) -> None:
        """End it and whatever it has started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._to.close()
        self.output.close()

    def close(self) -> None:
        """Let it end."""
        with contextlib.suppress(BrokenPipeError):
            self._to.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()
        self.output.close()

    def why_ended(self) -> str:
        """Say how it ended, and its last words."""
        code = self.process.wait()
        how = f"exited with {code}"
        if code < 0:
            name = signal.Signals(-code).name
            how = f"was ended by {name}"
            if name == "SIGKILL":
                how += ", as Linux does when memory runs out"
        with self._log.open("rb") as file:
            file.seek(max(self._log_start, file.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
        return f"its process {how}" + (f": {lines[-1]}" if lines else "")


class ProcessEvaluator:
    """Trains each network by `tarmac.train` in a process; several at a time.

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

    def evaluate(self, candidates: Iterable[Candidate], watch: Watch) -> Iterator[Result]:
        """Train candidates, each as soon as there is room; see `Evaluator.evaluate`.

        Args:
            candidates: The next is taken when a process is free, and no earlier.
            watch: Asked after every epoch of each.
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
                    worker.send(**self._job(candidate, worker.slot))
                    busy[index] = candidate
                    selector.register(worker.output, selectors.EVENT_READ, index)
                if not busy:
                    return
                for key, _ in selector.select(LOOK_EVERY_S):
                    result = self._hear(key.data, busy[key.data], watch)
                    if result is not None:
                        selector.unregister(key.fileobj)
                        del busy[key.data]
                        if result.error is not None:
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
            self._workers[index] = Worker(self._slots[index], log)
        return self._workers[index]

    def _job(self, candidate: Candidate, slot: Slot) -> dict[str, Any]:
        training = self._training
        return {
            **dataclasses.asdict(candidate),
            "settings": dict(candidate.settings),
            "workload": training.workload,
            "train_size": training.train_size,
            "validation_size": training.validation_size,
            "output": str(training.runs / f"{candidate.number:05d}"),
            "devices": slot.device,
        }

    def _hear(self, index: int, candidate: Candidate, watch: Watch) -> Result | None:
        """Take what a process says; return its candidate's result once there is one."""
        worker = self._workers[index]
        messages = worker.receive()
        if messages is None:
            return Result(number=candidate.number, error=worker.why_ended())
        for message in messages:
            if "epoch" in message:
                progress = Progress(
                    number=candidate.number, epoch=message["epoch"], metrics=message["metrics"]
                )
                worker.send(stop=watch(progress))
            elif "failed" in message:
                return Result(number=candidate.number, error=message["failed"])
            elif "interrupted" in message:
                return Result(number=candidate.number, stopped=True)
            else:
                return Result(
                    number=candidate.number, metrics=message["done"], stopped=message["stopped"]
                )
        return None


def train_whole(
    worker: Worker,
    job: dict[str, Any],
    on_epoch: Callable[[dict[str, float]], None],
    halted: Callable[[], bool],
) -> tuple[dict[str, float], str] | None:
    """Train a network on all data and score it on the test set.

    Args:
        worker: Where.
        job: What, as for a candidate; without ``validation_size``.
        on_epoch: Is told of every epoch.
        halted: Whether to give up.

    Returns:
        The run's metrics and directory; None if it was given up.

    Raises:
        TarmacError: The training failed.
    """
    worker.send(**job)
    with selectors.DefaultSelector() as selector:
        selector.register(worker.output, selectors.EVENT_READ)
        while not halted():
            if not selector.select(LOOK_EVERY_S):
                continue
            messages = worker.receive()
            if messages is None:
                raise TarmacError(f"the winner could not be trained: {worker.why_ended()}")
            for message in messages:
                if "epoch" in message:
                    on_epoch(message["metrics"])
                elif "failed" in message:
                    raise TarmacError(f"the winner could not be trained: {message['failed']}")
                elif "interrupted" in message:
                    return None
                else:
                    return message["done"], message["run"]
    return None
