"""Counts of a study's trials, by generation and in total."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState

from tarmac.studies.ledger import GENERATION

if TYPE_CHECKING:
    from tarmac.studies.study.study import Study


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """The counts of a generation, or of a range of trials for methods without generations.

    Attributes:
        name: Name of the group: a generation such as ``3``, or else a range of trials such as
            ``0-19``.
        survivors: Number of networks that survive from earlier generations, with their values.
        trained: Number of trainings, in any state.
        pruned: Number of trainings stopped as losers.
        failed: Number of trainings that failed.
        best: Best value of the first objective, including survivors; None without values.
        mean: Mean of the same values; None without values.
        worst: Worst of the same values; None without values.
        reused: Number of known networks that came up again and were not retrained.
    """

    name: str
    survivors: int
    trained: int
    pruned: int
    failed: int
    best: float | None
    mean: float | None
    worst: float | None
    reused: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Totals:
    """The counts of a whole study so far.

    Attributes:
        trained: Number of trainings, in any state.
        distinct: Number of different networks among the trainings.
        saved: Number of trainings saved because the network was known.
        pruned: Number of trainings stopped as losers.
        failed: Number of trainings that failed.
        running: Number of trials running now.
        expected: Estimated number of trainings of the whole search; None if unknown.
        seconds: Seconds of training, summed over all trials.
    """

    trained: int
    distinct: int
    saved: int
    pruned: int
    failed: int
    running: int
    expected: int | None
    seconds: float


def by_generation(study: Study) -> list[Group]:
    """Return the counts of each generation, or of each population's worth of trials."""
    trials = study.ledger.trials
    size = study.request.population
    groups: dict[str, list[FrozenTrial]] = {}
    for trial in trials:
        generation = trial.system_attrs.get(GENERATION)
        first = trial.number // size * size
        name = f"{first}-{first + size - 1}" if generation is None else str(generation)
        groups.setdefault(name, []).append(trial)
    generations = []
    for name, members in groups.items():
        generation = members[0].system_attrs.get(GENERATION)
        survivors = None if generation is None else study.ledger.survivors(generation)
        generations.append(_group(name, survivors or (), members, study))
    return generations


def summarize(study: Study) -> Totals:
    """Return the counts of a study so far."""
    ledger = study.ledger
    trained = ledger.trained
    return Totals(
        trained=len(trained),
        distinct=len({study.space.key(trial.params) for trial in trained}),
        saved=sum(_num_reused(trial) for trial in ledger.trials),
        pruned=_count(trained, TrialState.PRUNED),
        failed=_count(trained, TrialState.FAIL),
        running=len(ledger.in_state(TrialState.RUNNING)),
        expected=_expected(study),
        seconds=sum(float(trial.user_attrs.get("seconds", 0)) for trial in trained),
    )


def _group(
    name: str, survivors: Sequence[FrozenTrial], trials: Sequence[FrozenTrial], study: Study
) -> Group:
    trained = [
        trial for trial in trials if trial.state.is_finished() and "same_as" not in trial.user_attrs
    ]
    values = [
        trial.values[0]
        for trial in (*survivors, *trained)
        if trial.state == TrialState.COMPLETE and trial.values
    ]
    ordered = sorted(values, reverse=study.maximize[0])
    return Group(
        name=name,
        survivors=len(survivors),
        trained=len(trained),
        pruned=_count(trained, TrialState.PRUNED),
        failed=_count(trained, TrialState.FAIL),
        best=ordered[0] if ordered else None,
        mean=statistics.fmean(values) if values else None,
        worst=ordered[-1] if ordered else None,
        reused=sum(_num_reused(trial) for trial in trials),
    )


def _num_reused(trial: FrozenTrial) -> int:
    return len(trial.user_attrs.get("reused", ())) + ("same_as" in trial.user_attrs)


def _count(trials: Sequence[FrozenTrial], state: TrialState) -> int:
    return sum(trial.state == state for trial in trials)


def _expected(study: Study) -> int | None:
    """Estimate the total number of trainings."""
    request, size = study.request, study.space.size
    limits: list[float] = [] if size is None else [size]
    if request.trials is not None:
        limits.append(request.trials)
    generations = request.most_generations
    if generations is not None and study.has_generations:
        keeps = request.survivors
        keeps += int(request.random_select * (request.population - keeps))
        children = max(1, request.population - keeps)
        limits.append(request.population + (generations - 1) * children)
    elif generations is not None and not study.method.tries_all:
        limits.append(generations * request.population)
    return int(min(limits)) if limits else None
