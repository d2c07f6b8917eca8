"""A run's model scored again: as its training did, on other data, and what is refused."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from inference_models import pair, regression

import tarmac
from tarmac import RequestError, data, training
from tarmac.data import Dataset, Split
from tarmac.workloads import Ema, find_workload


def test_scores_are_those_of_the_training(digits, table, parts):
    for run, workload in ((digits, None), (table, regression), (parts, pair)):
        found = tarmac.evaluate(run, device="cpu", workload=workload)
        for name, value in found.metrics.items():
            assert value == pytest.approx(run.metrics[name], rel=1e-6), name
    assert tarmac.evaluate(digits, device="cpu").judged_by == "accuracy"
    found = tarmac.evaluate(table, device="cpu", workload=regression)
    assert (found.judged_by, found.direction) == ("loss", "min")
    assert found.expectation is None


def test_the_expectation_is_judged_on_a_workloads_own_data(line, digits):
    code, out, _ = line("eval", digits.path, "--device", "cpu")
    assert code == 0
    assert "359 test samples of digits, in fp32 on" in out
    assert digits.record.expectation["text"] in out
    code, _, _ = line("eval", digits.path, "--device", "cpu", "--verify")
    assert code == (0 if digits.record.expectation["met"] else 1)
    code, out, _ = line("eval", digits.path, "--device", "cpu", "--json")
    said = json.loads(out)
    assert said["metrics"]["test_accuracy"] == digits.metrics["test_accuracy"]
    assert said["judged_by"] == {"metric": "accuracy", "direction": "max"}
    assert said["expectation"]["met"] is digits.record.expectation["met"]


def test_the_best_weights_and_an_average_are_scored_as_validation_saw_them(line, tmp_path):
    digits = find_workload("digits-mlp")
    recipe = dataclasses.replace(digits.recipe, ema=Ema(decay=0.9, every=1))
    workload = dataclasses.replace(digits, name="digits-ema", recipe=recipe)
    # So large a rate makes the second epoch worse than the first.
    asked = {"learning_rate": 0.3, "validation_size": 200, "epochs": 3, "precision": "bf16"}
    run = training.train(workload, output=tmp_path, device="cpu", **asked)
    part = data.hold_out(data.load("digits"), validation_size=200).validation
    held_out = Split(part.of(part.split.inputs), part.of(part.split.targets))
    validation = Dataset("held-out", held_out, held_out, 10)
    for checkpoint, row in (("best", run.record.best.epoch), ("last", 3)):
        found = tarmac.evaluate(
            run, dataset=validation, device="cpu", workload=workload, checkpoint=checkpoint
        )
        expected = run.history[row - 1]["val_accuracy"]
        assert found.metrics["test_accuracy"] == pytest.approx(expected), checkpoint
    code, _, _ = line("eval", run.path, "--checkpoint", "first")
    assert code == 2


def test_a_run_that_held_nothing_out_has_no_best_weights(line, digits):
    code, _, err = line("eval", digits.path, "--checkpoint", "best")
    assert code == 2
    assert "has no best checkpoint" in err
    assert "--validation-size N" in err


def test_another_dataset_has_no_verdict(digits):
    whole = data.load("digits")
    some = Split(whole.test.inputs[:50], whole.test.targets[:50])
    other = Dataset("some-digits", some, some, 10)
    found = tarmac.evaluate(digits, dataset=other, device="cpu")
    assert (found.dataset, found.num_samples, found.expectation) == ("some-digits", 50, None)
    said = tarmac.predict(digits, some.inputs, device="cpu")
    assert found.metrics["test_accuracy"] == pytest.approx((said.classes == some.targets).mean())


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            Dataset("wide", *[Split(np.zeros((4, 9, 9), np.uint8), np.zeros(4, np.int64))] * 2, 10),
            r"samples of wide are uint8 \[9, 9\], and run .* takes uint8 \[8, 8\]",
        ),
        (
            Dataset("more", *[Split(np.zeros((4, 8, 8), np.uint8), np.full(4, 11))] * 2, 12),
            "expected 0 to 9",
        ),
    ],
)
def test_data_that_do_not_fit_the_model_are_refused(digits, other, said):
    with pytest.raises(RequestError, match=said):
        tarmac.evaluate(digits, dataset=other, device="cpu")


def test_data_that_have_changed_are_scored_only_where_they_are_named(table):
    def changed():
        found = regression.dataset()
        return dataclasses.replace(found, train=found.test)

    other = dataclasses.replace(regression, dataset=changed)
    with pytest.raises(RequestError, match="table has changed since run"):
        tarmac.evaluate(table, workload=other, device="cpu")
    assert tarmac.evaluate(table, workload=other, dataset=changed(), device="cpu").num_samples == 16


def test_a_run_that_is_not_there_is_refused(line, tmp_path):
    code, _, err = line("eval", "absent", "--output", tmp_path)
    assert code == 2
    assert "absent" in err
