"""The end of a search: trains the winner anew, and scores the test set once."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from tarmac import runs
from tarmac.studies.evaluation.in_processes import PROGRAM
from tarmac.studies.evaluation.retraining import train_whole
from tarmac.studies.evaluation.workers import start_worker
from tarmac.studies.winner import choose_winner, front_numbers, whole_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tarmac.studies.evaluation.slots import Slot
    from tarmac.studies.reporter import Reporter
    from tarmac.studies.study.record import Winner
    from tarmac.studies.study.study import Study
    from tarmac.studies.study.writer import StudyWriter

__all__ = ["conclude"]


def conclude(
    study: StudyWriter,
    why: str,
    slot: Slot,
    reporter: Reporter,
    halted: Callable[[], bool],
) -> bool:
    """Choose the winner, train it on all training data, and record both.

    Where several processes share a study, one does it and the others wait for it.

    Args:
        study: All its trials are finished.
        why: Why the search is over.
        slot: Where to train.
        reporter: Receives each epoch.
        halted: Whether to give up.

    Returns:
        Whether it is done; False if it was given up.

    Raises:
        TarmacError: The training failed.
    """
    lock = FileLock(study.path / ".conclude.lock", is_singleton=False)
    while not halted():
        try:
            with lock.acquire(timeout=0.5):
                return _conclude(study, why, slot, reporter, halted)
        except Timeout:
            continue
    return False


def _conclude(
    study: StudyWriter, why: str, slot: Slot, reporter: Reporter, halted: Callable[[], bool]
) -> bool:
    study.reload()
    study.ledger.refresh()
    winner = choose_winner(study)
    if winner is None:
        study.end("failed", error="no network could be trained", why_ended=why)
        return True
    known = study.record.best
    if known is not None and known.number == winner.number and known.test_accuracy is not None:
        winner = known.model_copy(update={"confirmed": winner.confirmed})
    else:
        trained = _retrain(study, winner, slot, reporter, halted)
        if trained is None:
            return False
        winner = trained
    study.update(
        status="completed",
        why_ended=why,
        best=winner,
        front=front_numbers(study),
        ended_at=runs.now(),
        error=None,
    )
    return True


def _retrain(
    study: Study, winner: Winner, slot: Slot, reporter: Reporter, halted: Callable[[], bool]
) -> Winner | None:
    output = study.path / "best"
    shutil.rmtree(output, ignore_errors=True)
    job: dict[str, Any] = {
        "workload": study.request.workload,
        "settings": dict(winner.settings),
        "seed": study.request.seed,
        "epochs": winner.epochs,
        "devices": slot.device,
        "output": str(output),
    }
    if study.request.train_size is not None:
        job["train_size"] = whole_size(study)
    reporter.retraining(study, 0, {})
    worker = start_worker(PROGRAM, slot.num_threads, study.path / "logs" / "winner.log")

    def on_epoch(row: Mapping[str, float]) -> None:
        reporter.retraining(study, int(row["epoch"]), row)

    try:
        trained = train_whole(worker, job, on_epoch, halted)
    finally:
        worker.kill()
    if trained is None:
        return None
    metrics, run = trained
    return winner.model_copy(
        update={
            "test_accuracy": metrics["test_accuracy"],
            "test_loss": metrics["test_loss"],
            "run": f"best/{run.rpartition('/')[2]}",
        }
    )
