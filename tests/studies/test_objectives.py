"""What is better: by one objective, and by several."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.cli.views.search import trial_line
from tarmac.runs import JudgedBy
from tarmac.studies import export
from tarmac.studies.errors import FieldError
from tarmac.studies.objectives import (
    best_first,
    find_objectives,
    front,
    recorded_objectives,
    values_of,
)
from tarmac.testing.stand_in import search_without_networks

points = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


@given(points)
def test_the_front_is_what_no_other_point_beats(given):
    chosen = front(given, [True, False])
    assert chosen
    for index, (more, less) in enumerate(given):
        beaten = any(a >= more and b <= less and (a, b) != (more, less) for a, b in given)
        assert (index in chosen) == (not beaten)


@given(points)
def test_ranking_keeps_every_point_and_puts_the_front_first(given):
    order = best_first(given, [True, False])
    chosen = front(given, [True, False])
    assert sorted(order) == list(range(len(given)))
    assert sorted(order[: len(chosen)]) == chosen


def test_equals_keep_their_order():
    assert best_first([[0.5], [0.9], [0.5], [0.9]], [True]) == [1, 3, 0, 2]
    assert best_first([[0.5], [0.9], [0.5]], [False]) == [0, 2, 1]


def test_the_ends_of_a_front_come_before_its_crowded_middle():
    line = [(0.0, 0.0), (0.5, 0.5), (0.51, 0.51), (1.0, 1.0)]
    assert set(best_first(line, [True, False])[:2]) == {0, 3}


def test_a_result_that_is_no_number_says_that_the_training_diverged():
    accuracy, loss, params = find_objectives(["accuracy", "val_loss", "params"], JudgedBy())
    assert values_of([accuracy, params], {"val_accuracy": 1, "num_parameters": 5}) == [1, 5]
    with pytest.raises(ValueError, match="val_loss is nan: the training diverged"):
        values_of([loss], {"val_loss": float("nan")})


ERROR = JudgedBy("mae", "min", among=("mae", "r2"))


@pytest.mark.parametrize(
    ("asked", "judged", "found"),
    [
        ((), JudgedBy(), [("val_accuracy", True)]),
        ((), ERROR, [("val_mae", False)]),
        (("mae", "params"), ERROR, [("val_mae", False), ("params", False)]),
        (("val_loss",), ERROR, [("val_loss", False)]),
        (("r2:max", "val_mae:min"), ERROR, [("val_r2", True), ("val_mae", False)]),
    ],
)
def test_any_metric_on_held_out_data_can_be_an_objective(asked, judged, found):
    assert [(one.name, one.maximize) for one in find_objectives(asked, judged)] == found


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("val_mea",), "unknown objective 'val_mea', did you mean 'val_mae'"),
        (("accuracy",), "unknown objective 'accuracy'"),
        (("test_mae",), "unknown objective 'test_mae'"),
        (("params", "params"), "objective params is named twice"),
        (("mae", "val_mae"), "objective val_mae is named twice"),
        (("r2",), "objective val_r2: it is not known whether higher or lower is better"),
        (("r2:up",), "objective r2 ends in 'up', expected r2:max or r2:min"),
        (("mae:max",), "objective mae:max: of val_mae less is better"),
        (("seconds:max",), "objective seconds:max: of seconds less is better"),
    ],
)
def test_an_objective_that_cannot_be_is_refused(asked, message):
    with pytest.raises(FieldError, match=message) as refused:
        find_objectives(asked, ERROR)
    assert refused.value.path == ("objective",)


def test_a_study_without_directions_is_one_of_before_they_were_recorded():
    names = ("val_loss", "val_accuracy", "params")
    found = recorded_objectives(names, ())
    assert [(one.metric, one.maximize) for one in found] == [
        ("val_loss", False),
        ("val_accuracy", True),
        ("num_parameters", False),
    ]


def test_every_objective_is_in_a_trial_s_values_and_in_the_export(make_study):
    study = make_study(generations=1, population=4, objective="val_accuracy,params")
    search_without_networks(study)
    (trial, *_), (row, *_) = study.ledger.trials, study.trials
    assert row["values"] == dict(zip(["val_accuracy", "params"], trial.values, strict=True))
    assert row["params"] == trial.params
    (exported, *_) = json.loads(export(study, "json"))
    assert exported["params"] == trial.values[1]
    assert exported["neurons"] == trial.params["neurons"]
    assert f"params {trial.values[1]:,.0f}  " in trial_line(study, trial)
