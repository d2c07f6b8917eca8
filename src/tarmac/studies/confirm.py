"""Train the best networks again from other seeds, because the best of many is partly luck."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from tarmac.studies.evaluation.interface import Candidate, Evaluator, Progress
from tarmac.studies.objectives import values_of
from tarmac.studies.trial_queue import candidate_of
from tarmac.studies.winner import NUM_SEEDS, finalists

if TYPE_CHECKING:
    from tarmac.studies.study.study import Study


def confirm(
    study: Study, evaluator: Evaluator, stop: Callable[[], bool]
) -> dict[int, tuple[float, ...]] | None:
    """Train the finalists from other seeds.

    Args:
        study: Study whose trials are all finished.
        evaluator: Evaluator that trains the networks.
        stop: Returns whether to stop; called after every epoch.

    Returns:
        Values of the first objective from other seeds, by trial number, with those that the study
        has already; None after a stop.
    """
    confirmed = {**study.record.confirmed}
    trial_numbers: dict[int, int] = {}
    candidates: list[Candidate] = []
    for trial in finalists(study):
        if trial.number in confirmed:
            continue
        confirmed[trial.number] = ()
        candidate = candidate_of(study, trial)
        for offset in range(1, 1 + NUM_SEEDS):
            # Above all trial numbers, because run directories are named after the numbers.
            number = len(study.ledger.trials) + trial.number * NUM_SEEDS + offset
            trial_numbers[number] = trial.number
            seed = candidate.seed + offset
            candidates.append(dataclasses.replace(candidate, number=number, seed=seed))

    def report(progress: Progress) -> bool:  # noqa: ARG001 - the interface's signature
        return stop()

    num_done = 0
    for result in evaluator.evaluate(candidates, report) if candidates else ():
        if result.stopped:
            return None
        num_done += 1
        # A network whose metric is not finite has diverged, and counts as one that failed.
        with contextlib.suppress(ValueError):
            if result.error is None:
                values = values_of(study.objectives, result.metrics)
                confirmed[trial_numbers[result.number]] += (values[0],)
    # A halted evaluator yields no results for the remaining candidates.
    return confirmed if num_done == len(candidates) else None
