"""The results of a study's trials, as plain values that a page or another program can draw."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import optuna
from optuna.storages import InMemoryStorage

from tarmac.studies.space import Choices, Parameter

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from tarmac.studies.study.study import Study
    from tarmac.training import Setting

# Importances of fewer trials say nothing; those of more values take minutes and do not differ.
_LEAST_TRIALS = 2
_MAX_VALUES = 2400


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """A completed trial.

    Attributes:
        number: Number of the network's trial.
        place: Its generation, or its number if the method has no generations.
        values: Values of its objectives, in the study's order.
        params: Values of the searched parameters, by name.
        num_parameters: Number of weights and biases of the network; None if not recorded.
        seconds: Training time in seconds; None if not recorded.
        epochs: Number of trained epochs; None if not recorded.
    """

    number: int
    place: int
    values: tuple[float, ...]
    params: Mapping[str, Setting]
    num_parameters: float | None
    seconds: float | None
    epochs: int | None


@dataclasses.dataclass(frozen=True)
class Step:
    """The progress after a generation or trial: the mean of its new values, and the best so far."""

    place: int
    mean: float
    best: float


@dataclasses.dataclass(frozen=True)
class SpaceAxis:
    """A parameter of the space.

    Attributes:
        name: Name of the parameter.
        is_log: Whether it is drawn on a logarithmic scale.
        choices: Values to choose from; empty for a range.
        low: Least value of a range; None for choices.
        high: Greatest value of a range; None for choices.
    """

    name: str
    is_log: bool = False
    choices: tuple[Setting, ...] = ()
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survey:
    """The results of a study, ready to draw.

    Attributes:
        networks: Trials with a value, by number, including repeats of known networks.
        steps: Progress of the search, in order.
        front: Indices of the networks that are Pareto-optimal in size and first objective.
        axes: The parameters of the space.
        importances: Share of the differences that each parameter explains, largest first; empty
            if unknown.
        num_judged: Number of networks behind the importances: all, or evenly spaced ones of many.
        why_no_importances: Reason for missing importances, in words.
    """

    networks: Sequence[Network]
    steps: Sequence[Step]
    front: Sequence[int]
    axes: Sequence[SpaceAxis]
    importances: Mapping[str, float]
    num_judged: int
    why_no_importances: str = ""


def survey(study: Study) -> Survey:
    """Return the results of all trials of a study.

    Raises:
        RequestError: The package that provides its method, or the password of its storage, is
            missing.
        TarmacError: Its storage cannot be read.
    """
    study.ledger.refresh()
    evolves = study.has_generations
    rows = {row["number"]: row for row in map(study.row, study.ledger.trials)}
    complete = [trial for trial in study.ledger.trials if _has_value(trial, study)]
    networks = [_network(trial, rows[trial.number], evolves=evolves) for trial in complete]
    most = max(_LEAST_TRIALS, _MAX_VALUES // len(study.space.parameters))
    judged = [complete[place] for place in _spread(len(complete), most)]
    importances, why_not = _importances(study, judged)
    return Survey(
        networks=networks,
        steps=_steps(networks, max if study.maximize[0] else min),
        front=_cost_front(networks, maximize=study.maximize[0]),
        axes=[_axis(name, parameter) for name, parameter in study.space.parameters.items()],
        importances=importances,
        num_judged=len(judged),
        why_no_importances=why_not,
    )


def _has_value(trial: FrozenTrial, study: Study) -> bool:
    return trial.state == optuna.trial.TrialState.COMPLETE and len(trial.values or ()) == len(
        study.maximize
    )


def _network(trial: FrozenTrial, row: Mapping[str, Any], *, evolves: bool) -> Network:
    return Network(
        number=trial.number,
        place=(row["generation"] or 0) if evolves else trial.number,
        values=tuple(trial.values),
        params=row["params"],
        num_parameters=row.get("num_parameters"),
        seconds=row.get("seconds"),
        epochs=row.get("epochs"),
    )


def _steps(networks: Sequence[Network], better: Callable[..., float]) -> list[Step]:
    by_place: dict[int, list[float]] = {}
    for network in networks:
        by_place.setdefault(network.place, []).append(network.values[0])
    steps: list[Step] = []
    for place in sorted(by_place):
        values = by_place[place]
        best = better([*values, *(step.best for step in steps[-1:])])
        steps.append(Step(place, math.fsum(values) / len(values), best))
    return steps


def _cost_front(networks: Sequence[Network], *, maximize: bool) -> list[int]:
    """Return the Pareto-optimal networks in size and value, smallest first; of equals the first."""
    sign = -1 if maximize else 1
    known = [
        (network.num_parameters, sign * network.values[0], index)
        for index, network in enumerate(networks)
        if network.num_parameters is not None
    ]
    kept: list[int] = []
    best = math.inf
    for _, value, index in sorted(known):
        if value < best:
            best = value
            kept.append(index)
    return kept


def _axis(name: str, parameter: Parameter) -> SpaceAxis:
    if isinstance(parameter, Choices):
        return SpaceAxis(name, choices=parameter.values)
    return SpaceAxis(name, is_log=parameter.log, low=parameter.low, high=parameter.high)


def _spread(count: int, most: int) -> list[int]:
    """Return at most ``most`` evenly spaced indices of ``count``."""
    shown = min(count, most)
    return [place * count // shown for place in range(shown)]


def _importances(study: Study, trials: Sequence[FrozenTrial]) -> tuple[dict[str, float], str]:
    if len(trials) < _LEAST_TRIALS:
        return {}, f"Needs {_LEAST_TRIALS} networks that were trained to their end."
    # Optuna's default explains the best few trials; fANOVA explains the whole space.
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judged = optuna.create_study(
            storage=InMemoryStorage(), directions=study.optuna.directions, study_name=study.name
        )
        try:
            judged.add_trials(trials)
            importances = optuna.importance.get_param_importances(
                judged, evaluator=evaluator, target=lambda trial: trial.values[0]
            )
        except (ValueError, RuntimeError, ImportError) as error:
            return {}, f"Optuna cannot compute it: {error}"
    if not importances:
        return {}, "No parameter is used by all networks with more than one value."
    return {name: float(share) for name, share in importances.items()}, ""
