"""A study's trials counted: by generation, and in all."""

from __future__ import annotations

import dataclasses
import statistics
from typing import TYPE_CHECKING

from optuna.trial import TrialState

from tarmac.studies.ledger import GENERATION
from tarmac.studies.methods.registry import find_method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.trial import FrozenTrial

    from tarmac.studies.study.study import Study


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """The trials of a generation, or of a range where there are no generations.

    Attributes:
        name: Name of the group: a generation such as ``3``, or else a range of trials such as
            ``0-19``.
        survivors: How many networks of earlier generations are in it, with the values they have.
        trained: How many were trained, in whatever state.
        pruned: How many of them were stopped as losers.
        failed: How many of them failed.
        best: The best of the first objective's values, survivors' included; None where there is
            none.
        mean: Mean of the same values; None where there is none.
        worst: Worst of the same values; None where there is none.
        reused: How many networks came up again and were not trained again.
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
    """A whole study so far.

    Attributes:
        trained: Trainings, in whatever state.
        distinct: Different networks among them.
        saved: Trainings that were not done because the network was known.
        pruned: Trainings stopped as losers.
        failed: Number of trainings that failed.
        running: Number of trials under way now.
        expected: About how many trainings the search will have; None where nothing says.
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
    """Return the study's generations; where it has none, its trials by populations."""
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
    """Count what there is so far."""
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
    """Estimate how many trainings there will be in all."""
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
    elif generations is not None and not find_method(request.method).tries_all:
        limits.append(generations * request.population)
    return int(min(limits)) if limits else None
