"""A conformance suite for search methods: `tarmac.studies.Method`.

Example, in the tests of a package with an entry point ``annealing`` of ``tarmac.search_methods``::

    import pytest
    from tarmac.testing.methods import METHOD_CHECKS

    @pytest.mark.parametrize("check", METHOD_CHECKS)
    def test_annealing_is_a_search_method(check, tmp_path):
        check("annealing", tmp_path)

Each check takes the method's name, as in ``--method``, and an empty directory. It searches without
networks, so it needs neither data nor a GPU. It raises an `AssertionError` that describes the
failure.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler

from tarmac.studies import (
    Choices,
    FieldError,
    GenerationSampler,
    MethodOptions,
    Numbers,
    Space,
    find_method,
)
from tarmac.studies.ledger import Ledger
from tarmac.studies.study.writer import StudyWriter
from tarmac.testing.stand_in import StandIn, make_study, search_without_networks

_POPULATION = 6
_TRIALS = 20


def _finite() -> Space:
    return Space({"layers": Choices((1, 2, 3)), "neurons": Numbers(1, 8, whole=True)})


def _endless() -> Space:
    return Space({"rate": Numbers(1e-4, 1.0, log=True), "dropout": Numbers(0.0, 0.5)})


def _conditional() -> Space:
    return Space(
        {
            "layers": Choices((1, 2)),
            "neurons": Numbers(1, 4, whole=True),
            "second": Numbers(1, 5, whole=True, when={"layers": (2,)}),
        }
    )


def _spaces(name: str) -> list[Space]:
    """Return the spaces that a method can search; assert that there is at least one."""
    accepted = []
    for space in (_finite(), _endless(), _conditional()):
        with contextlib.suppress(FieldError):
            find_method(name).check_space(space, 1)
            accepted.append(space)
    assert accepted, f"{name} refuses every space, finite, endless and conditional"
    return accepted


def _drawn_by_optuna(name: str, space: Space) -> list[dict[str, Any]]:
    """Return the parameters of 12 trials from Optuna's own loop with the method's sampler."""
    study = optuna.create_study(direction="maximize")
    ledger = Ledger(study._storage, study._study_id, space)
    options = MethodOptions(seed=3, population=_POPULATION)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.sampler = find_method(name).make_sampler(space, options, ledger)
        study.optimize(lambda trial: float(len(space.suggest(trial))), n_trials=12)
    return [trial.params for trial in study.get_trials()]


def _stop_after(count: int, seen: Sequence[object]) -> Callable[[], bool]:
    return lambda: len(seen) >= count


def _rows(study: StudyWriter) -> list[Any]:
    trials = StudyWriter.open(study.path).optuna.get_trials()
    return [(trial.number, trial.state.name, trial.params, trial.values) for trial in trials]


def check_sampler_matches_its_declaration(name: str, directory: Path) -> None:
    """Check that the method is found, and makes the kind of sampler that it declares."""
    method = find_method(name)
    assert method.name == name, f"the entry point {name} has a method named {method.name}"
    assert method.summary, f"{name} has no summary"
    for space in _spaces(name):
        study = make_study(directory, space, method=name)
        sampler = method.make_sampler(space, MethodOptions(), study.ledger)
        assert isinstance(sampler, BaseSampler), f"{name} makes {sampler}, not an Optuna sampler"
        breeds = isinstance(sampler, GenerationSampler)
        assert breeds == method.breeds_generations, (
            f"breeds_generations of {name} is {method.breeds_generations}, but its sampler is "
            f"{'a' if breeds else 'not a'} GenerationSampler"
        )


def check_values_are_in_the_space(name: str, directory: Path) -> None:
    """Check that each network has the parameters that it uses, with values in the space."""
    for space in _spaces(name):
        study = make_study(directory, space, method=name, population=_POPULATION, trials=_TRIALS)
        search_without_networks(study)
        for trial in study.optuna.get_trials():
            problems = space.problems(trial.params)
            assert not problems, f"{name} drew {trial.params}: {problems}"


def check_no_network_trains_twice(name: str, directory: Path) -> None:
    """Check that no network trains twice, and that the search of a finite space ends.

    A method that breeds generations proposes no known network. A method that tries all networks
    proposes each once. Other methods may repeat a network, and then get its known result.
    """
    method = find_method(name)
    for space in _spaces(name):
        if space.size is None:
            continue
        study = make_study(directory, space, method=name, population=_POPULATION, trials=10_000)
        evaluator = StandIn()
        why = search_without_networks(study, evaluator)
        keys = [space.key(trial.params) for trial in study.ledger.trained]
        assert len(set(keys)) == len(keys), f"{name} trained a network twice"
        assert len(evaluator.seen) == space.size, (
            f"{name} ended after {len(evaluator.seen)} of {space.size} networks: {why}"
        )
        if method.breeds_generations or method.tries_all:
            repeated = [t.number for t in study.ledger.trials if "same_as" in t.user_attrs]
            assert not repeated, f"{name} proposed known networks again, as trials {repeated}"


def check_searches_resume(name: str, directory: Path) -> None:
    """Check that a search that was stopped and resumed three times equals an uninterrupted one."""
    for space in _spaces(name):
        fields = {"method": name, "population": _POPULATION, "trials": _TRIALS}
        whole = make_study(directory, space, **fields)
        search_without_networks(whole)
        stopped = make_study(directory, space, **fields)
        for _ in range(3):
            evaluator = StandIn()
            search_without_networks(stopped, evaluator, stop=_stop_after(5, evaluator.seen))
            stopped = StudyWriter.open(stopped.path)
        search_without_networks(stopped)
        for row, other in zip(_rows(stopped), _rows(whole), strict=True):
            assert row == other, f"{name} made trial {row} after a resume, expected {other}"


def check_seed_determines_values(name: str, directory: Path) -> None:  # noqa: ARG001 - all checks' face
    """Check that Optuna's own loop draws the same parameters twice from one seed."""
    for space in _spaces(name):
        first, second = _drawn_by_optuna(name, space), _drawn_by_optuna(name, space)
        assert first == second, f"{name} draws different values from the same seed"


METHOD_CHECKS: tuple[Callable[[str, Path], None], ...] = (
    check_sampler_matches_its_declaration,
    check_values_are_in_the_space,
    check_no_network_trains_twice,
    check_searches_resume,
    check_seed_determines_values,
)
