"""The held-out samples of a training, whichever way it is done and by whom it is gone on with."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import tarmac
from tarmac import data
from tarmac.data import Dataset, Split, samples_from
from tarmac.errors import RequestError
from tarmac.studies import Candidate
from tarmac.studies.evaluation import worker
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.workloads import find_workload

SIZES = {"train_size": 64, "validation_size": 40}
SETTINGS = {"dropout": 0.0}
FIELDS = {
    "epochs": 1,
    "device": "cpu",
    "precision": "fp32",
    "score_test": False,
    "settings": SETTINGS,
    **SIZES,
}


def sorted_digits(**fields) -> Dataset:
    """Digits, by class: the last ones are nines."""
    digits = data.load("digits")
    inputs, targets = digits.train.arrays
    order = np.argsort(targets, kind="stable")
    return dataclasses.replace(digits, train=Split(inputs[order], targets[order]), **fields)


def workload(dataset=sorted_digits):
    return dataclasses.replace(find_workload("digits-mlp"), dataset=dataset)


def train(output, dataset=sorted_digits, **fields):
    return tarmac.train(workload(dataset), output=output, **{**FIELDS, **fields})


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return train(tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize(
    "fields",
    [{"feed": "direct"}, {"feed": "prefetch"}, {"strategy": "towers", "device": "cpu:2"}],
    ids=str,
)
def test_every_feed_and_strategy_trains_on_and_scores_the_same_samples(tmp_path, alone, fields):
    run = train(tmp_path, **fields)
    for name in ("val_loss", "val_accuracy", "train_loss"):
        assert run.metrics[name] == pytest.approx(alone.metrics[name], rel=1e-5), name


class Search:
    """What a worker of a search talks to."""

    def __init__(self):
        self.last = {}

    def send(self, **message):
        self.last = message

    def receive(self):
        return {"stop": False}


# Where winners are confirmed, networks have other seeds than the draw.
@pytest.mark.parametrize("seed", [0, 5])
def test_a_search_scores_the_same_samples_stacked_and_by_workers(tmp_path, seed):
    path = tmp_path / "by_class.py"
    path.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_held_out_samples import workload as make\nworkload = make()\n"
    )
    own = {"validation_seed": 0, "seed": seed}
    expected = train(tmp_path / "alone", **own).history[-1]
    stacked = StackedEvaluator(
        workload(), sorted_digits(), device="cpu", precision="fp32", settings=SETTINGS, **SIZES
    )
    candidate = Candidate(number=0, settings={}, seed=seed, epochs=1)
    (result,) = stacked.evaluate([candidate], lambda progress: False)
    search = Search()
    fields = {"workload": f"{path}:workload", "settings": SETTINGS, "epochs": 1, "devices": "cpu"}
    worker._work({**fields, **own, **SIZES, "output": str(tmp_path / "by_worker")}, search)
    for metrics in (result.metrics, search.last["done"]):
        assert metrics["val_loss"] == pytest.approx(expected["val_loss"], rel=1e-4)
        assert metrics["loss"] == pytest.approx(expected["loss"], rel=1e-4)


def test_samples_read_one_by_one_are_the_same_for_every_number_of_readers(tmp_path):
    pairs = [*zip(*data.load("digits").train.arrays, strict=True)]
    runs = [
        train(
            tmp_path / str(workers),
            lambda workers=workers: dataclasses.replace(
                data.load("digits"), train=samples_from(pairs, num_workers=workers)
            ),
        )
        for workers in (0, 1)
    ]
    assert runs[0].metrics["val_loss"] == runs[1].metrics["val_loss"]


def test_trainings_of_sorted_samples_learn_every_class(tmp_path):
    run = train(tmp_path, epochs=3, train_size=None, validation_size=240)
    assert run.metrics["val_accuracy"] > 0.5
    few = train(tmp_path, epochs=8, train_size=300, validation_size=0, score_test=True)
    assert few.metrics["test_accuracy"] > 0.5


def test_what_would_hold_out_a_whole_class_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(RequestError, match="class 9 of digits would be scored"):
        train(tmp_path, train_size=None, validation_size=143, validation_split="last")
    assert not [*tmp_path.iterdir()]


def test_a_datasets_own_validation_samples_are_scored_every_epoch(tmp_path):
    held = data.load("digits").test

    def dataset():
        return sorted_digits(validation=held)

    run = train(
        tmp_path, dataset, train_size=None, validation_size=None, patience=1, score_test=True
    )
    assert run.record.configuration["validation_split"] == "own"
    assert run.record.configuration["validation_size"] == len(held)
    assert run.record.dataset["num_validation"] == len(held)
    assert run.metrics["val_loss"] == pytest.approx(run.metrics["test_loss"], rel=1e-6)
    none = train(tmp_path, dataset, validation_size=0)
    assert "val_loss" not in none.metrics


def test_patience_without_validation_is_refused(tmp_path):
    with pytest.raises(RequestError, match="patience is 2, but there is no validation to watch"):
        train(tmp_path, validation_size=0, patience=2)


def stopped(output, **fields):
    """Return a run that was stopped in its second epoch."""
    steps = iter(range(3))
    run = train(output, epochs=3, interrupted=lambda: next(steps, None) is None, **fields)
    assert run.record.status == "interrupted"
    return run


def digits():
    return data.load("digits")


@pytest.mark.parametrize("split", ["random", "last"])
def test_a_resumed_training_keeps_its_samples(tmp_path, split):
    fields = {"validation_split": split, "validation_seed": 3}
    whole = train(tmp_path / "whole", digits, epochs=3, **fields)
    again = tarmac.resume(
        stopped(tmp_path, dataset=digits, **fields).path, workload=workload(digits)
    )
    assert again.metrics["val_loss"] == whole.metrics["val_loss"]


def test_a_run_of_an_older_version_goes_on_with_the_last_samples(tmp_path):
    whole = train(tmp_path / "whole", digits, epochs=3, validation_split="last")
    path = stopped(tmp_path, dataset=digits, validation_split="last").path
    record = json.loads((path / "run.json").read_text())
    for name in ("validation_split", "validation_seed"):
        del record["configuration"][name]
    (path / "run.json").write_text(json.dumps(record | {"schema_version": 5}))
    again = tarmac.resume(path, workload=workload(digits))
    assert again.metrics["val_loss"] == whole.metrics["val_loss"]
    assert again.record.schema_version == 7


@pytest.mark.parametrize("split", ["random", "last"])
def test_a_split_without_a_size_holds_out_a_sixth(split):
    held = data.hold_out(data.load("digits"), split=split)
    assert (len(held.train), len(held.validation), held.split) == (1199, 239, split)


@pytest.mark.parametrize("sizes", [{"validation_size": 0}, {"train_size": 500}])
def test_a_split_with_a_size_holds_out_no_more_than_was_asked(sizes):
    held = data.hold_out(data.load("digits"), split="random", **sizes)
    assert len(held.validation) == 0


def test_patience_without_validation_advises_a_share_of_the_samples():
    with pytest.raises(RequestError) as caught:
        tarmac.train(workload(digits), patience=2, device="cpu")
    assert str(caught.value).endswith("--validation-size 239")


def test_a_series_is_not_advised_to_be_drawn():
    labels = np.repeat(np.arange(10), 10)
    split = Split(np.zeros((100, 64), np.float32), labels, is_series=True)
    dataset = Dataset("steps", split, split, num_classes=10)
    held = data.hold_out(dataset, validation_size=20)
    assert held.split == "last"
    with pytest.raises(RequestError) as caught:
        held.check_classes(dataset)
    assert "random" not in str(caught.value)
