"""What a training is judged by, in its record and wherever runs are put side by side."""

import pytest

from made_regression import JUDGED, make_regression, record_of
from tarmac import runs
from tarmac.runs import TRAINING, JudgedBy, bare_name, glance_training, name_words


def test_a_metric_has_a_name_on_each_split_and_a_better_end():
    assert [JUDGED.of(split) for split in ("train", "val", "test")] == [
        "train_mae",
        "val_mae",
        "test_mae",
    ]
    assert JUDGED.best([0.4, 0.2, 0.3]) == 0.2
    assert JudgedBy().best([0.4, 0.2, 0.3]) == 0.4
    assert JUDGED.best([]) is None


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("test_mae", "min"),
        ("mae", "min"),
        ("val_loss", "min"),
        ("accuracy", "max"),
        ("samples_per_s", "max"),
        ("test_r2", None),
        ("train_seconds", None),
        ("val_rmse", "min"),
    ],
)
def test_of_a_metric_of_which_nobody_says_it_no_end_is_better(name, direction):
    assert JUDGED.direction_of(name) == direction


@pytest.mark.parametrize(
    ("name", "bare", "words"),
    [
        ("val_accuracy", "accuracy", "validation accuracy"),
        ("test_top_5", "top_5", "test top 5"),
        ("r2", "r2", "r2"),
        ("val_", "val_", "val "),
    ],
)
def test_a_metric_is_named_with_and_without_its_split(name, bare, words):
    assert bare_name(name) == bare
    assert name_words(name) == words


def test_the_record_says_what_a_run_is_judged_by(tmp_path):
    run = make_regression(tmp_path)
    assert record_of(run)["judged_by"] == {
        "metric": "mae",
        "direction": "min",
        "among": ["mae", "r2"],
    }
    assert runs.Run.open(run.path).record.judged_by == JUDGED


def test_a_list_shows_the_judged_metric(tmp_path):
    run = make_regression(tmp_path, mae=2.25)
    assert TRAINING.summarize(run.path).result == "mae 2.2500"


def test_the_least_error_is_the_best_of_a_comparison(tmp_path):
    paths = [make_regression(tmp_path, name, mae=mae) for name, mae in (("a", 3.0), ("b", 2.0))]
    compared = runs.compare([(run.name, runs.facts_of(run)) for run in paths])
    assert compared.best("test_mae") == {1}
    assert compared.best("test_loss") == {1}
    assert compared.best("test_r2") == set()
    assert compared.curves == [[3.75, 3.5, 3.25, 3.0]] * 2


def test_runs_that_are_judged_in_opposite_ways_have_no_best(tmp_path):
    first = make_regression(tmp_path, "a", mae=3.0)
    second = make_regression(tmp_path, "b", mae=2.0)
    second.update(judged_by=JudgedBy("mae", "max", among=("mae",)))
    compared = runs.compare([(run.name, runs.facts_of(run)) for run in (first, second)])
    assert compared.best("test_mae") == set()


def test_a_monitor_shows_the_judged_metric(tmp_path):
    ended = glance_training(make_regression(tmp_path, "ended", mae=2.0).path)
    assert (ended.metric_name, ended.metric) == ("test_mae", 2.0)
    stopped = glance_training(make_regression(tmp_path, "stopped", status="interrupted").path)
    assert (stopped.metric_name, stopped.metric) == ("val_mae", 3.0)


def test_a_run_that_is_judged_by_its_loss_shows_it_once(tmp_path):
    run = make_regression(tmp_path, status="interrupted", judged_by=JudgedBy("loss", "min", ()))
    found = glance_training(run.path)
    assert (found.loss, found.metric_name) == (2.25, "val_loss")
    run.truncate_metrics(lambda row: False)
    run.append_metrics({"epoch": 1, "loss": 4.0, "seconds": 1.0})
    found = glance_training(run.path)
    assert (found.loss, found.metric_name) == (4.0, None)
