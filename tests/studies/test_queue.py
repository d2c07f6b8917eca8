"""Who trains which network: claims, ends, the dead, and Optuna's own samplers."""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from tarmac.cli.views.search import totals_line
from tarmac.distribution import install_hint
from tarmac.errors import RequestError, TarmacError
from tarmac.studies import Choices, Numbers, Result, Silent, Study, by_generation, loop, summarize
from tarmac.studies.methods.registry import find_method
from tarmac.studies.request import make_request
from tarmac.studies.study.writer import StudyWriter
from tarmac.studies.trial_queue import TrialQueue
from tarmac.testing.stand_in import StandIn
from tarmac.testing.stand_in import search_without_networks as search

PROGRAM = Path(__file__).with_name("stand_in.py")
NUMBERS = {"x": Numbers(0.0, 1.0), "y": Numbers(1, 64, None, True, True)}


def rows(study):
    return [
        (trial.number, trial.state.name, trial.params, trial.values)
        for trial in Study.open(study.path).optuna.get_trials()
    ]


def start(study, *gate):
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(study.path), *map(str, gate)],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("method", ["random", "tpe", "nsga2", "brute"])
def test_optunas_samplers_train_no_network_twice(make_study, method):
    study = make_study({"a": Choices((1, 2, 3)), "b": Choices((1, 2, 3, 4))}, method=method)
    evaluator = StandIn()
    assert search(study, evaluator) == "all 12 networks of the space were tried"
    assert len(evaluator.seen) == 12
    repeats = [t for t in study.optuna.get_trials() if "same_as" in t.user_attrs]
    assert bool(repeats) == (method != "brute")
    for trial in repeats:
        assert trial.values == study.optuna.get_trials()[trial.user_attrs["same_as"]].values


@pytest.mark.parametrize("method", ["random", "tpe", "nsga2", "cmaes", "brute", "evolve"])
def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(make_study, method):
    space = NUMBERS if method == "cmaes" else None
    fields = {"method": method, "trials": 30, "population": 8}
    whole = make_study(space, **fields)
    search(whole)
    stopped = make_study(space, **fields)
    for _ in range(3):
        evaluator = StandIn()
        assert search(stopped, evaluator, stop=lambda seen=evaluator.seen: len(seen) >= 7) is None
        stopped = StudyWriter.open(stopped.path)
    search(stopped)
    assert rows(stopped) == rows(whole)
    trained = [row for row in rows(whole) if row[1] == "COMPLETE"]
    assert len(trained) >= 30


def test_an_interrupted_network_is_repeated_and_counts_no_attempt(make_study):
    study = make_study(generations=2, population=4, retain=0.5)
    evaluator = StandIn()
    search(study, evaluator, stop=lambda: len(evaluator.seen) >= 3)
    states = [trial.state for trial in study.optuna.get_trials()]
    assert states == [TrialState.COMPLETE] * 2 + [TrialState.WAITING] * 2
    assert study.optuna.get_trials()[2].user_attrs["attempts"] == 0


@pytest.mark.parametrize("method", ["evolve", "tpe"])
def test_a_killed_search_goes_on_with_at_most_the_running_trial_repeated(
    make_study, tmp_path, method
):
    fields = {"generations": 4, "population": 8, "method": method, "trials": 20}
    whole = make_study(**fields)
    search(whole)
    study = make_study(**fields)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    killed = start(study, 11, gate)
    assert gate.read_text() == "here"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert Study.open(study.path).status == "interrupted"
    evaluator = StandIn()
    search(StudyWriter.open(study.path), evaluator)
    first = evaluator.seen[0].number
    assert first == 11
    assert rows(study) == rows(whole)
    assert study.optuna.get_trials()[11].user_attrs["attempts"] == 2


def test_two_processes_share_a_generation_and_train_nothing_twice(make_study, tmp_path):
    study = make_study(generations=3, population=8)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    first = start(study, 2, gate)
    assert gate.read_text() == "here"
    # The first is in the middle of generation 0 and stays there: the second takes what is left of
    # it, and begins no other.
    seen = []

    class Watcher(Silent):
        def planned(self, generation, num_children, num_survivors):
            seen.append(generation)

    evaluator = StandIn()
    search(study, evaluator, reporter=Watcher(), stop=lambda: len(evaluator.seen) >= 5)
    assert [candidate.number for candidate in evaluator.seen] == [3, 4, 5, 6, 7]
    assert seen == []
    states = [trial.state for trial in study.optuna.get_trials()]
    assert len(states) == 8
    assert states[2] == TrialState.RUNNING
    first.kill()
    first.communicate()


@pytest.mark.parametrize("is_shared", [False, True])
def test_two_processes_together_make_the_search_of_one(make_study, is_shared):
    whole = make_study(generations=4, population=8)
    search(whole)
    study = make_study(generations=4, population=8, is_shared=is_shared)
    both = [start(study), start(study)]
    trained = [json.loads(one.communicate()[0]) for one in both]
    assert sorted(trained[0] + trained[1]) == list(range(len(rows(whole))))
    assert rows(study) == rows(whole)


def test_a_trial_whose_processes_all_died_fails_in_the_end(make_study):
    study = make_study(generations=1, population=2, retain=1.0, method="random", trials=2)
    for _ in range(5):
        with study.leases.work() as owner:
            assert TrialQueue(study, owner, Silent()).next().number == 0
    search(study)
    trial = study.optuna.get_trials()[0]
    assert trial.state == TrialState.FAIL
    assert trial.user_attrs["error"] == "the process that trained it died, 5 times in a row"


def test_a_network_that_was_being_asked_for_when_its_process_died_is_none(make_study):
    study = make_study(method="random", trials=3)
    trial = study.optuna.ask()
    trial.suggest_categorical("neurons", study.space.parameters["neurons"].values)
    search(study)
    states = [trial.state for trial in study.optuna.get_trials()]
    assert states[0] == TrialState.FAIL
    assert study.optuna.get_trials()[0].user_attrs["error"].startswith("the search ended while")


def test_a_network_that_something_else_stopped_is_trained_again(make_study):
    study = make_study(generations=1, population=6)
    evaluator = StandIn()
    train, given_up = evaluator.train, []

    def once(candidate, report):
        if candidate.number == 2 and not given_up:
            given_up.append(2)
            return Result(number=2, stopped=True)
        return train(candidate, report)

    evaluator.train = once
    search(study, evaluator)
    assert [one.number for one in evaluator.seen] == [0, 1, 2, 2, 3, 4, 5]
    assert {trial.state for trial in study.optuna.get_trials()} == {TrialState.COMPLETE}


def test_trials_and_budget_end_a_search(make_study):
    study = make_study(trials=13, population=8)
    evaluator = StandIn()
    assert search(study, evaluator) == "13 trainings were requested"
    assert len(evaluator.seen) == 13
    study = make_study(budget=1e-9)
    assert search(study) == "its time of 1e-09 s is over"


def test_a_search_in_which_nothing_works_ends_with_the_reason(make_study):
    study = make_study(generations=5, population=6)
    evaluator = StandIn(fail=lambda candidate: "no such data")
    with pytest.raises(TarmacError, match=r"none of the first 6 networks could be .* no such data"):
        search(study, evaluator)
    assert len(evaluator.seen) == 6


def test_a_bad_network_is_a_failed_trial_with_its_message(make_study):
    study = make_study(generations=2, population=6)
    search(study, StandIn(fail=lambda one: "out of memory" if one.number == 3 else None))
    trial = study.optuna.get_trials()[3]
    assert (trial.state, trial.user_attrs["error"]) == (TrialState.FAIL, "out of memory")


def test_a_search_is_summed_up_with_what_failed_and_what_was_stopped(make_study):
    study = make_study(generations=3, population=12, epochs=9, prune="halving")
    search(study, StandIn(fail=lambda one: "out of memory" if one.number == 3 else None))
    states = collections.Counter(trial.state for trial in study.optuna.get_trials())
    pruned = states[TrialState.PRUNED]
    totals = summarize(study)
    assert (totals.pruned, totals.failed) == (pruned, 1)
    assert sum(group.pruned for group in by_generation(study)) == pruned
    assert totals_line(study).endswith(f", {pruned} stopped early, 1 failed")


def test_a_killed_search_has_spent_the_time_of_its_trainings(make_study, monkeypatch):
    monkeypatch.setattr(loop, "_STORE_TIME_EVERY_S", 0.0)

    elapsed_s = []

    class Reporter(Silent):
        def trial_done(self, study, trial):
            elapsed_s.append(Study.open(study.path).record.elapsed_s)

    search(make_study(trials=3, method="random"), reporter=Reporter())
    assert 0.0 < elapsed_s[1] < elapsed_s[2]


def test_the_dashboard_has_values_curves_and_what_a_training_took(make_study):
    study = make_study(generations=1, population=4)
    search(study)
    for trial in optuna.load_study(study_name=study.record.id, storage=study.storage).trials:
        assert sorted(trial.intermediate_values) == [1, 2]
        assert trial.intermediate_values[2] == trial.value
        assert {"epochs", "seconds", "num_parameters", "val_loss"} <= trial.user_attrs.keys()
    assert study.optuna.metric_names == ["val_accuracy"]


@pytest.mark.parametrize(
    ("method", "space", "fields", "message"),
    [
        ("brute", NUMBERS, {}, "method is brute, but x has infinitely many values"),
        ("cmaes", {"a": Choices((1, 2))}, {}, "cmaes, which searches over numbers"),
        (
            "cmaes",
            NUMBERS,
            {"objective": "val_accuracy,params"},
            "cmaes, which supports one objective, not 2",
        ),
    ],
)
def test_a_method_that_cannot_search_the_space_is_refused(method, space, fields, message):
    from tarmac.studies import Space

    request = make_request({"workload": "mlp", "method": method, **fields})
    with pytest.raises(RequestError, match=message):
        find_method(method).check_space(Space(space), len(request.objective) or 1)


def test_a_missing_extra_is_named(monkeypatch):
    from tarmac.studies import Space

    monkeypatch.setitem(sys.modules, "cmaes", None)
    with pytest.raises(RequestError) as caught:
        find_method("cmaes").check_space(Space(NUMBERS), 1)
    assert caught.value.hint == install_hint("search")


def test_losers_stop_early_and_the_best_never(make_study):
    for prune in ("halving", "median"):
        study = make_study(generations=3, population=12, epochs=9, prune=prune)
        search(study)
        trials = study.optuna.get_trials()
        pruned = [trial for trial in trials if trial.state == TrialState.PRUNED]
        assert pruned
        assert all(trial.last_step < 9 for trial in pruned)
        from tarmac.testing.stand_in import accuracy_of

        best = max(trials, key=lambda trial: accuracy_of(study.settings_of(trial)))
        assert best.state == TrialState.COMPLETE
