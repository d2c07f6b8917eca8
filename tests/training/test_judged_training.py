"""Trainings that are judged by another metric than accuracy, from the record to the last line."""

import dataclasses

import pytest

import judged_line
import tarmac
from tarmac.cli.training_end import conclude
from tarmac.cli.views.training import reporter_for
from tarmac.errors import RequestError, TarmacError
from tarmac.runs import JudgedBy
from tarmac.workloads import Expectation

REFERENCE = f"{judged_line.__file__}:workload"


@pytest.fixture
def train(tmp_path):
    """Return a function that trains the line on the CPU."""

    def train(workload=REFERENCE, **options):
        options = {"devices": "cpu", "epochs": 2, "sampling": False} | options
        return tarmac.train(workload, output=tmp_path, **options)

    return train


def test_the_record_and_the_metrics_carry_what_the_objective_names(train, capsys):
    with reporter_for(quiet=False, verbose=False) as reporter:
        run = train(validation_size=40, reporter=reporter)
    assert run.record.judged_by == JudgedBy("mae", "min", among=("mae", "near"))
    assert {"loss", "mae", "near", "val_loss", "val_mae", "val_near"} <= run.history[0].keys()
    assert {"test_mae", "test_near", "test_loss", "train_mae", "val_mae"} <= run.metrics.keys()
    assert run.record.expectation["metric"] == "test_mae"
    assert run.record.expectation["met"] is True
    conclude(run, as_json=False, verify=True)
    printed = capsys.readouterr().out
    assert f"mae {run.history[1]['mae']:.4f}  near" in printed
    assert f"val_mae {run.history[1]['val_mae']:.4f}" in printed
    assert "expected at most 5: as expected" in printed


def test_patience_watches_the_judged_metric(train):
    run = train(validation_size=40, patience=2, epochs=9, learning_rate=1e-30)
    assert run.record.stopped_early == "val_mae has not fallen for 2 epochs"
    assert len(run.history) == 3


def with_expectation(**fields):
    return dataclasses.replace(judged_line.workload, expectation=Expectation(**fields))


def test_an_expectation_of_what_was_not_held_out_is_no_success(train, capsys):
    run = train(with_expectation(at_most=9.0, metric="val_loss"), epochs=1)
    assert run.record.expectation["met"] is None
    with pytest.raises(TarmacError, match="validation loss was not scored, expected at most 9"):
        conclude(run, as_json=False, verify=True)
    assert "; validation loss was not scored" in capsys.readouterr().out


def test_an_expectation_of_an_unknown_metric_is_refused_before_it_trains(train, tmp_path):
    with pytest.raises(RequestError, match="unknown metric of the expectation 'mea'"):
        train(with_expectation(at_most=9.0, metric="mea"))
    assert not [*tmp_path.iterdir()]
