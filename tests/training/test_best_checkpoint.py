"""The best checkpoint of a training is kept beside the newest, and named in its record."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file

import tarmac
from tarmac.errors import RequestError
from tarmac.runs import Best, Run
from tarmac.testing.faults import failing_once
from tarmac.testing.strategies import WORKLOADS, weights_of
from tarmac.training.session.best import BestSoFar, find_best
from tarmac.training.session.checkpoint import (
    best_checkpoint,
    epoch_of,
    keep_as_best,
    newest_checkpoint,
)
from tarmac.workloads import Classification, Expectation, judged_by, monitored

# So fast that some epochs are worse than those before them.
WORKLOAD = dataclasses.replace(
    WORKLOADS["cnn"],
    recipe=dataclasses.replace(WORKLOADS["cnn"].recipe, epochs=6),
)


def train(output, **options):
    asked = {"devices": "cpu", "precision": "fp32", "train_size": 62, "validation_size": 20}
    return tarmac.train(WORKLOAD, output=output, **(asked | options))


def best_row(run: Run):
    return max(run.history, key=lambda row: row["val_accuracy"])


def test_the_best_epoch_is_kept_and_named(tmp_path):
    run = train(tmp_path)
    best = best_row(run)
    assert run.record.best == Best(
        epoch=int(best["epoch"]),
        metric="val_accuracy",
        value=best["val_accuracy"],
        file="checkpoints/best.safetensors",
    )
    assert epoch_of(run.checkpoints / "best.safetensors") == best["epoch"]
    assert json.loads((run.path / "run.json").read_text())["best"]["epoch"] == best["epoch"]
    # A training of as many epochs ends with the same weights.
    shorter = train(tmp_path / "shorter", epochs=int(best["epoch"]))
    kept = load_file(run.checkpoints / "best.safetensors")
    assert all(torch.equal(kept[f"model/{n}"], v) for n, v in weights_of(shorter).items())


def test_without_held_out_samples_there_is_no_best(tmp_path):
    run = train(tmp_path, validation_size=0, epochs=1)
    assert run.record.best is None
    assert best_checkpoint(run.checkpoints) is None


def test_of_checkpoints_that_are_written_rarely_the_best_is_kept(tmp_path):
    run = train(tmp_path, checkpoint_every=4)
    written = [row for row in run.history if row["epoch"] in (4, 6)]
    assert run.record.best is not None
    assert run.record.best.value == max(row["val_accuracy"] for row in written)


def test_a_training_that_failed_goes_on_with_the_best_so_far(tmp_path):
    whole = train(tmp_path / "whole")
    with (
        failing_once(tmp_path / "failed-once", 10),
        pytest.raises(RuntimeError, match="failed on purpose"),
    ):
        train(tmp_path / "resumed")
    (path,) = (tmp_path / "resumed").iterdir()
    begun = Run.open(path)
    assert begun.record.best is not None
    assert begun.record.best.value == best_row(begun)["val_accuracy"]
    assert tarmac.resume(path, workload=WORKLOAD).record.best == whole.record.best


def test_a_best_that_was_not_yet_kept_is_when_the_training_goes_on(tmp_path):
    run = train(tmp_path, epochs=1)
    (run.checkpoints / "best.safetensors").unlink()
    assert find_best(run) is None
    best = BestSoFar(run, newest_checkpoint(run.checkpoints))
    assert find_best(run) == run.record.best
    (row,) = run.history
    assert not best.sees(row)
    assert not best.sees({"val_accuracy": float("nan")})
    assert best.sees({"val_accuracy": 2.0})


def test_where_there_are_no_links_the_best_is_a_copy(tmp_path, monkeypatch):
    path = tmp_path / "epoch-00001-step-0000000.safetensors"
    shutil.copy(__file__, path)

    def refuse(*_):
        raise OSError

    monkeypatch.setattr(os, "link", refuse)
    keep_as_best(path)
    assert best_checkpoint(tmp_path).read_bytes() == path.read_bytes()


def test_a_best_that_is_damaged_is_none(tmp_path):
    run = train(tmp_path, epochs=1)
    (run.checkpoints / "best.safetensors").write_bytes(b"no tensors")
    assert find_best(run) is None


@pytest.mark.parametrize("monitor", [None, "val_loss", "accuracy", "loss:min"])
def test_patience_and_the_best_checkpoint_go_by_one_metric(tmp_path, monitor):
    run = train(tmp_path, monitor=monitor, patience=1)
    metric = "val_loss" if monitor and "loss" in monitor else "val_accuracy"
    sign = -1 if metric == "val_loss" else 1
    values = [sign * row[metric] for row in run.history]
    assert run.record.best.metric == metric
    assert run.record.best.value == sign * max(values)
    assert run.record.judged_by.of("val") == metric
    assert run.record.stopped_early.startswith(metric)
    assert values[-1] <= max(values[:-1])


@pytest.mark.parametrize(
    ("monitor", "message"),
    [
        ("val_acuracy", "unknown metric to monitor 'val_acuracy', did you mean 'accuracy'?"),
        ("test_loss", "unknown metric to monitor 'test_loss'"),
        ("loss:max", "monitor is 'loss:max', expected loss:min"),
        ("accuracy:", "monitor is 'accuracy:', expected accuracy:max"),
    ],
)
def test_a_monitor_that_cannot_be_is_refused_before_anything_starts(tmp_path, monitor, message):
    with pytest.raises(RequestError, match=message):
        train(tmp_path / "none", monitor=monitor)
    assert not (tmp_path / "none").exists()


def test_a_recipe_names_its_monitor_and_an_expectation_keeps_its_metric():
    recipe = dataclasses.replace(WORKLOAD.recipe, monitor="val_loss")
    expected = Expectation(at_least=0.9)
    changed = dataclasses.replace(WORKLOAD, recipe=recipe, expectation=expected)
    judged = judged_by(changed)
    assert (judged.of("val"), judged.direction) == ("val_loss", "min")
    assert changed.expectation.metric_of(judged) == "test_accuracy"


def test_a_metric_whose_better_end_nobody_says_is_monitored_in_a_named_direction():
    def near(output, targets):
        return output.argmax(1) == targets

    objective = Classification(metrics={"near": near})
    with pytest.raises(RequestError, match="whether higher or lower is better"):
        monitored(objective, "near")
    assert monitored(objective, "val_near:min").direction == "min"
    assert objective.judged_by == "accuracy"
