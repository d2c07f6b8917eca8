"""The conformance suites, held against what Tarmac brings itself and a package provides."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tarmac import data
from tarmac.errors import RequestError, TarmacError
from tarmac.studies import Candidate, method_names, pruning_rule_names, search
from tarmac.studies.evaluation.in_processes import ProcessEvaluator, Training
from tarmac.studies.evaluation.slots import Slot
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.studies.evaluation.stacked.pool import PooledEvaluator
from tarmac.studies.methods.registry import METHODS
from tarmac.studies.request import make_request
from tarmac.testing.evaluators import EVALUATOR_CHECKS, EvaluatorCase
from tarmac.testing.methods import METHOD_CHECKS
from tarmac.testing.stand_in import StandIn
from tarmac.workloads import find_workload

PYTHON = sys.executable
FRAGILE = f"{Path(__file__).with_name('fragile.py')}:fragile"
SIZES = {"train_size": 200, "validation_size": 100}

PACKAGE = """
    import random

    from optuna.samplers import RandomSampler
    from tarmac.studies import Method, PruningRule, resumable

    drift = Method(
        name="drift",
        summary="a package's own method",
        make_sampler=resumable(lambda seed, space, options: RandomSampler(seed=seed)),
    )
    nothing = 3

    def unseeded(space, options, ledger):
        return RandomSampler()

    unsteady = Method(name="unsteady", summary="draws anew each time", make_sampler=unseeded)

    class First:
        def is_loser(self, ledger, number, curve):
            return number > 0

    first = PruningRule(name="first", summary="one goes on", make_pruner=lambda _: First())
    """
ENTRY_POINTS = """
    [tarmac.search_methods]
    drift = drift_method:drift
    nothing = drift_method:nothing
    unsteady = drift_method:unsteady
    [tarmac.pruning_rules]
    first = drift_method:first
    nothing = drift_method:nothing
    """


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A distribution with search methods, as pip would have installed it."""
    site = tmp_path / "site"
    information = site / "drift_method-1.0.dist-info"
    information.mkdir(parents=True)
    (site / "drift_method.py").write_text(textwrap.dedent(PACKAGE))
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: drift-method\nVersion: 1.0\n"
    )
    (information / "entry_points.txt").write_text(textwrap.dedent(ENTRY_POINTS))
    monkeypatch.syspath_prepend(str(site))
    return site


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", [method.name for method in METHODS])
def test_each_method_is_a_search_method(name, check, tmp_path):
    check(name, tmp_path)


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
def test_a_method_of_a_package_is_found_and_searches(package, check, tmp_path):
    assert "drift" in method_names()
    check("drift", tmp_path)


def test_a_method_that_draws_otherwise_once_resumed_is_found_out(package, tmp_path):
    check = next(check for check in METHOD_CHECKS if check.__name__ == "check_searches_resume")
    with pytest.raises(AssertionError, match=r"unsteady made trial .* after a resume"):
        check("unsteady", tmp_path)


def test_what_a_package_names_a_method_and_is_none_is_refused(package):
    with pytest.raises(TarmacError, match="'nothing' of drift_method:nothing is of type int"):
        make_request({"workload": "mlp", "method": "nothing"})


def test_a_pruning_rule_of_a_package_stops_networks(package, tmp_path):
    assert pruning_rule_names() == ("none", "halving", "median", "first", "nothing")
    study = search(
        "mlp",
        output=tmp_path,
        method="random",
        trials=2,
        epochs=2,
        prune="first",
        space={"dataset": "digits", "neurons": [16, 32]},
        train_size=64,
        validation_size=64,
        devices="cpu",
        workers=1,
    )
    assert [trial.state.name for trial in study.ledger.trials] == ["COMPLETE", "PRUNED"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "'nothing' of drift_method:nothing is of type int"),
        ("halvign", "'halvign', did you mean 'halving'"),
    ],
)
def test_what_is_no_pruning_rule_is_refused(package, name, message):
    with pytest.raises(TarmacError, match=message):
        make_request({"workload": "mlp", "prune": name})


def test_a_method_that_nobody_provides_is_refused_with_those_there_are(package):
    with pytest.raises(RequestError, match="'drfit', did you mean 'drift'") as caught:
        make_request({"workload": "mlp", "method": "drfit"})
    assert "evolve" in str(caught.value)


def candidate(number, **settings):
    return Candidate(number=number, settings=settings, seed=number, epochs=3)


def stacked():
    return StackedEvaluator(
        find_workload("mlp"), data.load("digits"), device="cpu", precision="fp32", **SIZES
    )


@contextlib.contextmanager
def closing(evaluator):
    try:
        yield evaluator
    finally:
        evaluator.close()


def perceptron(number, **settings):
    return candidate(number, dataset="digits", neurons=8 if number % 2 else 16, **settings)


def case_of(kind, directory):
    good = [perceptron(number) for number in range(4)]
    failing = [perceptron(7, activation="rleu"), perceptron(8, learning_rate=1e30)]
    if kind == "stand-in":
        stand_in = StandIn(fail=lambda one: "no" if one.number == 7 else None)
        return EvaluatorCase(
            open=lambda: contextlib.nullcontext(stand_in), good=good, failing=failing[:1]
        )
    if kind == "stacked":
        return EvaluatorCase(
            open=lambda: contextlib.nullcontext(stacked()), good=good, failing=failing
        )
    if kind == "pooled":
        setup = {"workload": "mlp", "settings": {"dataset": "digits"}, "precision": "fp32", **SIZES}
        slots = [Slot("cpu", 1)] * 2
        return EvaluatorCase(
            open=lambda: closing(
                PooledEvaluator(stacked(), setup, slots, directory / "logs", lambda: False)
            ),
            good=good,
            failing=failing,
        )
    training = Training(workload=FRAGILE, runs=directory / "runs", logs=directory / "logs", **SIZES)
    return EvaluatorCase(
        open=lambda: closing(ProcessEvaluator(training, [Slot("cpu", 1)] * 2, lambda: False)),
        good=[candidate(number, hidden=8 + number) for number in range(3)],
        failing=[candidate(7, fault="complain"), candidate(8, fault="nan")],
        fatal=[candidate(9, fault="crash")],
    )


@pytest.mark.parametrize("check", EVALUATOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["stand-in", "stacked", "pooled", "processes"])
def test_each_evaluator_keeps_its_promises(kind, check, tmp_path):
    check(case_of(kind, tmp_path))


def test_an_evaluator_that_ignores_a_stop_is_found_out(tmp_path):
    class Deaf(StandIn):
        def train(self, candidate, report):
            return super().train(candidate, lambda progress: report(progress) and False)

    case = EvaluatorCase(
        open=lambda: contextlib.nullcontext(Deaf()), good=[candidate(n) for n in range(3)]
    )
    with pytest.raises(AssertionError, match=r"after a stop request, epochs \[1, 2, 3\]"):
        EVALUATOR_CHECKS[1](case)


def test_the_suites_need_no_test_runner():
    program = (
        "import sys, tarmac.testing.methods, tarmac.testing.evaluators; "
        "assert 'pytest' not in sys.modules"
    )
    # A fork has imported it.
    subprocess.run([PYTHON, "-c", program], check=True)
