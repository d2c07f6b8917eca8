"""The end of a search: chooses the winner and trains it anew, and scores the test set once."""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from optuna.trial import TrialState

from tarmac import runs
from tarmac.studies.confirm import confirmed_best
from tarmac.studies.evaluation.in_processes import PROGRAM
from tarmac.studies.evaluation.retraining import train_whole
from tarmac.studies.evaluation.workers import start_worker
from tarmac.studies.objectives import best_first, front
from tarmac.studies.study.record import Winner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optuna.trial import FrozenTrial

    from tarmac.studies.evaluation.slots import Slot
    from tarmac.studies.reporter import Reporter
    from tarmac.studies.study.study import Study
    from tarmac.studies.study.writer import StudyWriter

__all__ = [
    "choose_winner",
    "complete_trials",
    "conclude",
    "front_numbers",
    "front_of",
    "train_line",
]


def front_of(study: Study) -> list[FrozenTrial]:
    """Return the trials that none beats in every objective, best first by the first one."""
    complete = complete_trials(study)
    if not complete:
        return []
    points = [trial.values for trial in complete]
    kept = [complete[index] for index in front(points, study.maximize)]
    order = best_first([[trial.values[0]] for trial in kept], study.maximize[:1])
    return [kept[index] for index in order]


def front_numbers(study: Study) -> tuple[int, ...]:
    """Return the numbers of `front_of`; none where there is one objective."""
    return tuple(trial.number for trial in front_of(study)) if len(study.maximize) > 1 else ()


def choose_winner(study: Study) -> Winner | None:
    """Return the best trial by the first objective; of equals the earliest. None where none is.

    Where the best were trained from other seeds too, their means decide.
    """
    complete = complete_trials(study)
    if not complete:
        return None
    points = [[trial.values[0]] for trial in complete]
    best = confirmed_best(study, complete)
    best = best or complete[best_first(points, study.maximize[:1])[0]]
    return Winner(
        number=best.number,
        settings=study.settings_of(best),
        values=dict(zip(study.request.objective, best.values, strict=True)),
        epochs=int(best.user_attrs["epochs"]),
        confirmed=study.record.confirmed.get(best.number, ()),
    )


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
        reporter: Is told of each epoch.
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


def train_line(study: Study, winner: Winner) -> str:
    """Return the command line that trains a winner on all training data."""
    words = ["tarmac", "train", study.request.workload]
    options = dict(winner.settings)
    words += ["--epochs", str(winner.epochs), "--seed", str(study.request.seed)]
    for name, option in (("learning_rate", "--lr"), ("batch_size", "--batch-size")):
        if name in options:
            words += [option, str(options.pop(name))]
    if study.request.train_size is not None:
        words += ["--train-size", str(_whole_size(study))]
    for name, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += ["--set", f"{name}={text}"]
    return shlex.join(words)


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
        job["train_size"] = _whole_size(study)
    reporter.retraining(study, 0, {})
    worker = start_worker(PROGRAM, slot.num_threads, study.path / "logs" / "winner.log")

    def on_epoch(row: Mapping[str, float]) -> None:
        reporter.retraining(study, int(row["epoch"]), row)

    try:
        found = train_whole(worker, job, on_epoch, halted)
    finally:
        worker.kill()
    if found is None:
        return None
    metrics, run = found
    return winner.model_copy(
        update={
            "test_accuracy": metrics["test_accuracy"],
            "test_loss": metrics["test_loss"],
            "run": f"best/{run.rpartition('/')[2]}",
        }
    )


def _whole_size(study: Study) -> int:
    """How many samples a network trains on once none are held out."""
    return study.record.train_size + study.record.validation_size


def complete_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials that have a value, each network once."""
    return [
        trial
        for trial in study.ledger.trials
        if trial.state == TrialState.COMPLETE and "same_as" not in trial.user_attrs
    ]
