"""The end of a search: retrain the winner on all data, and score the test set once."""

from __future__ import annotations

import contextlib
import selectors
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac import runs
from tarmac.errors import TarmacError
from tarmac.files import parse_json, write_json
from tarmac.processes import LOOK_EVERY_S, Worker
from tarmac.studies.evaluation.in_processes import PROGRAM
from tarmac.studies.evaluation.workers import start_worker
from tarmac.studies.study.locks import owner_lock
from tarmac.studies.study.record import Winner
from tarmac.studies.winner import (
    BEST,
    choose_winner,
    front_numbers,
    monitor_of,
    whole_size,
)

if TYPE_CHECKING:
    from tarmac.studies.evaluation.slots import Slot
    from tarmac.studies.reporter import Reporter
    from tarmac.studies.study.study import Study
    from tarmac.studies.study.writer import StudyWriter

_POLL_INTERVAL_S = 0.5

# Description of the winner's network, stored beside its run.
_NETWORK = "network.json"


@contextlib.contextmanager
def concluding(study: StudyWriter, halted: Callable[[], bool], *, waits: bool) -> Iterator[bool]:
    """Hold the lock of the process that concludes a study, while the block runs.

    Args:
        study: Study whose trials are all finished.
        halted: Returns whether to stop waiting for another process.
        waits: Whether to wait while another process concludes the study, which may fail.

    Yields:
        Whether this process holds the lock.
    """
    lock = owner_lock(study.path / ".conclude.lock", study.record.locks)
    is_ours = lock.acquire()
    while waits and not is_ours and not halted():
        time.sleep(_POLL_INTERVAL_S)
        is_ours = lock.acquire()
    try:
        if is_ours:
            study.reload()
            study.ledger.refresh()
        yield is_ours
    finally:
        lock.release()


class WinnersProcess:
    """The process that trains a study's winner, on one device and all its threads.

    It needs seconds to import PyTorch, so it may be started before the winner is known.

    Args:
        study: Study in whose directory the process writes its log.
        slot: Device and threads to train with.
    """

    def __init__(self, study: Study, slot: Slot) -> None:
        self.device = slot.device
        self._log = study.path / "logs" / "winner.log"
        self._num_threads = slot.num_threads
        self._worker: Worker | None = None

    def start(self) -> Worker:
        """Start the process unless it runs, and return it.

        Raises:
            StorageError: The log cannot be written.
        """
        if self._worker is None:
            self._worker = start_worker(PROGRAM, self._num_threads, self._log)
        return self._worker

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


def conclude(
    study: StudyWriter,
    why: str,
    process: WinnersProcess,
    reporter: Reporter,
    halted: Callable[[], bool],
) -> bool:
    """Choose the winner, train it on all training data, and record both.

    Args:
        study: Study that this process concludes, inside a block of `concluding`.
        why: Reason why the search is over.
        process: Process that trains the winner.
        reporter: Reporter that receives each epoch's metrics.
        halted: Returns whether to stop.

    Returns:
        True once the study has ended; False after a stop.

    Raises:
        TarmacError: The training failed.
    """
    winner = choose_winner(study)
    if winner is None:
        reason = study.ledger.usual_error
        error = "no network could be trained" + (f"; most often: {reason}" if reason else "")
        study.end("failed", error=error, why_ended=why)
        return True
    front = front_numbers(study)
    known = study.record.best
    if known is not None and known.number == winner.number and known.run is not None:
        winner = known.model_copy(update={"confirmed": winner.confirmed})
    else:
        trained = _retrain(study, winner, process, reporter, halted)
        if trained is None:
            return False
        winner = trained
    study.update(
        status="completed",
        why_ended=why,
        best=winner,
        front=front,
        ended_at=runs.now(),
        error=None,
    )
    return True


def _retrain(
    study: Study,
    winner: Winner,
    process: WinnersProcess,
    reporter: Reporter,
    halted: Callable[[], bool],
) -> Winner | None:
    """Train a winner on all data in a process of its own, and score it on the test set."""
    output = study.path / BEST
    job: dict[str, Any] = {
        "workload": study.request.workload,
        "settings": dict(winner.settings),
        "seed": study.request.seed,
        "epochs": winner.epochs,
        "monitor": monitor_of(study),
    }
    if study.request.train_size is not None:
        split = study.record.validation_split
        job |= {"train_size": whole_size(study), "validation_split": split}
    _begin_or_keep(output, job)
    job |= {"devices": process.device, "output": str(output), "checkpoint_every": 1}
    reporter.retraining(study, 0, {})
    worker = process.start()
    worker.send(**job)
    with selectors.DefaultSelector() as selector:
        selector.register(worker.output, selectors.EVENT_READ)
        while not halted():
            for message in _received(worker) if selector.select(LOOK_EVERY_S) else ():
                if "epoch" in message:
                    metrics = message["metrics"]
                    reporter.retraining(study, int(metrics["epoch"]), metrics)
                elif "interrupted" in message:
                    return None
                else:
                    return _with_test_scores(winner, message["done"], message["run"])
    return None


def _begin_or_keep(output: Path, network: Mapping[str, Any]) -> None:
    """Keep an interrupted training of the same network; otherwise empty the directory."""
    known = output / _NETWORK
    with contextlib.suppress(OSError, ValueError):
        if parse_json(known.read_bytes()) == network:
            return
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    write_json(known, network)


def _received(worker: Worker) -> Iterator[dict[str, Any]]:
    """Yield the messages of the process that trains; raise an error if the training failed."""
    messages = worker.receive()
    if messages is None:
        raise TarmacError(f"the winner could not be trained: {worker.why_ended()}")
    for message in messages:
        if "failed" in message:
            raise TarmacError(f"the winner could not be trained: {message['failed']}")
        yield message


def _with_test_scores(winner: Winner, metrics: Mapping[str, float], run: str) -> Winner:
    return winner.model_copy(
        update={
            "test_accuracy": metrics.get("test_accuracy"),
            "test_loss": metrics.get("test_loss"),
            "test_metrics": {k: v for k, v in metrics.items() if k.startswith("test_")},
            "run": f"{BEST}/{run.rpartition('/')[2]}",
        }
    )
