"""Train the best networks again from other seeds, because the best of many is partly luck."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tarmac.studies.evaluation.interface import Candidate, Evaluator, Progress
from tarmac.studies.objectives import best_first, values_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from tarmac.studies.study.study import Study
    from tarmac.studies.study.writer import StudyWriter

NUM_SEEDS = 2


def finalists(study: Study, complete: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials to train again, best first; empty if the request confirms none."""
    order = best_first([[trial.values[0]] for trial in complete], study.maximize[:1])
    return [complete[index] for index in order[: study.request.confirm]]


def confirm(
    study: StudyWriter,
    complete: Sequence[FrozenTrial],
    evaluator: Evaluator,
    stop: Callable[[], bool],
) -> bool:
    """Train the finalists from other seeds, and store the results in the study.

    Args:
        study: Study whose trials are all finished.
        complete: Trials of the study that have a value.
        evaluator: Evaluator that trains the networks.
        stop: Returns whether to stop; called after every epoch.

    Returns:
        True once all finalists are trained; False after a stop.
    """
    request = study.request
    assert request.epochs is not None
    known = study.record.confirmed
    trial_numbers: dict[int, int] = {}
    candidates: list[Candidate] = []
    for trial in finalists(study, complete):
        for seed in range(request.seed + 1, request.seed + 1 + NUM_SEEDS):
            if trial.number in known:
                continue
            # Above all trial numbers, because run directories are named after the numbers.
            number = len(study.ledger.trials) + trial.number * NUM_SEEDS + seed - request.seed
            trial_numbers[number] = trial.number
            candidates.append(
                Candidate(
                    number=number,
                    settings=study.settings_of(trial),
                    seed=seed,
                    epochs=request.epochs,
                    patience=request.patience,
                    monitor=request.monitor or "loss:min",
                )
            )
    reached: dict[int, tuple[float, ...]] = dict.fromkeys(trial_numbers.values(), ())

    def report(progress: Progress) -> bool:  # noqa: ARG001 - the interface's signature
        return stop()

    num_done = 0
    for result in evaluator.evaluate(candidates, report) if candidates else ():
        if result.stopped:
            return False
        num_done += 1
        if result.error is None:
            values = values_of(study.objectives, result.metrics)
            reached[trial_numbers[result.number]] += (values[0],)
    # A halted evaluator yields no results for the remaining candidates.
    if num_done < len(candidates):
        return False
    study.update(confirmed={**known, **reached})
    return True


def confirmed_best(study: Study, complete: Sequence[FrozenTrial]) -> FrozenTrial | None:
    """Return the finalist with the best mean over all its seeds.

    Finalists that failed from another seed are excluded. None if there is no finalist left.
    """
    confirmed = study.record.confirmed
    left = [
        trial
        for trial in finalists(study, complete)
        if len(confirmed.get(trial.number, ())) == NUM_SEEDS
    ]
    if not left:
        return None
    means = [[statistics.fmean((t.values[0], *confirmed[t.number]))] for t in left]
    return left[best_first(means, study.maximize[:1])[0]]
