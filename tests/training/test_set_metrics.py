"""Metrics of all samples together, as torchmetrics has them: one device, ranks, what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import set_metric_cases
import torch
import torchmetrics
from safetensors.torch import load_file
from torchmetrics.classification import MulticlassF1Score, MulticlassPrecision, MulticlassRecall

import judged_line
import tarmac
from tarmac.data import Dataset, Split, Subset, hold_out
from tarmac.errors import RequestError
from tarmac.inference import evaluate
from tarmac.training.engine.set_scores import SetScores
from tarmac.training.engine.team import Alone
from tarmac.workloads import Classification, Objective, Regression, Workload

CASES = set_metric_cases.__file__


@pytest.fixture
def train(tmp_path):
    """Return a function that trains a case, on one CPU unless it is asked otherwise."""

    def train(workload: str | Workload, **options: object) -> tarmac.Run:
        options = {"devices": "cpu", "sampling": False} | options
        return tarmac.train(workload, output=tmp_path, **options)

    return train


def f1_of(weights: Path, samples: Subset) -> float:
    return float(MulticlassF1Score(num_classes=3)(*outcome(weights, samples)))


def harmonic(weights: Path, samples: Subset) -> float:
    logits, targets = outcome(weights, samples)
    kinds = (MulticlassPrecision, MulticlassRecall)
    precision, recall = (float(kind(num_classes=3)(logits, targets)) for kind in kinds)
    return 2 * precision * recall / (precision + recall)


def outcome(weights: Path, samples: Subset) -> tuple[torch.Tensor, torch.Tensor]:
    model = set_metric_cases.model()
    # A checkpoint has more than the model.
    values = {name.removeprefix("model/"): value for name, value in load_file(weights).items()}
    model.load_state_dict({name: values[name] for name in model.state_dict()})
    with torch.no_grad():
        logits = model(torch.from_numpy(samples.of(samples.split.inputs)))
    return logits, torch.from_numpy(samples.of(samples.split.targets))


def test_they_judge_a_training_by_all_of_its_samples_together(train):
    run = train(f"{CASES}:classes", validation_size=40, epochs=4)
    data = set_metric_cases.groups()
    test, held_out = Subset.whole(data.test), hold_out(data, validation_size=40).validation
    assert {"accuracy", "val_accuracy", "val_f1", "val_auroc", "val_both"} <= run.history[0].keys()
    assert not {"f1", "auroc", "both"} & run.history[0].keys()
    assert run.metrics["test_f1"] == pytest.approx(f1_of(run.model, test))
    assert run.metrics["val_f1"] == pytest.approx(f1_of(run.model, held_out))
    # Made of two others.
    assert run.metrics["test_both"] == pytest.approx(harmonic(run.model, test))
    by_epoch = [row["val_f1"] for row in run.history]
    assert f1_of(run.checkpoints / "best.safetensors", held_out) == pytest.approx(max(by_epoch))
    assert evaluate(run, device="cpu").score == pytest.approx(run.metrics["test_f1"])


@pytest.mark.parametrize("case", ["classes", "values"])
def test_ranks_score_as_one_device_does(train, case):
    one = train(f"{CASES}:{case}", validation_size=41)
    ranks = train(f"{CASES}:{case}", validation_size=41, devices="cpu:2", strategy="ddp")
    assert one.metrics.keys() == ranks.metrics.keys()
    for name in ("val_f1", "test_f1", "test_auroc", "test_both", "val_r2", "test_r2"):
        if name in one.metrics:
            assert ranks.metrics[name] == pytest.approx(one.metrics[name], abs=1e-5), name


# Of one sample AUROC says that it means nothing.
@pytest.mark.filterwarnings("ignore:No (positive|negative) samples in targets")
def test_a_rank_without_a_sample_scores_with_the_others(train):
    options = {"validation_size": 1, "validation_split": "last", "epochs": 1}
    one = train(f"{CASES}:classes", **options)
    ranks = train(f"{CASES}:classes", devices="cpu:2", strategy="ddp", **options)
    for name in ("val_f1", "val_auroc", "val_both"):
        assert ranks.metrics[name] == pytest.approx(one.metrics[name], abs=1e-5), name


def test_a_resumed_training_scores_as_an_uninterrupted_one(train):
    whole = train(f"{CASES}:classes", validation_size=40, epochs=4)
    first = train(f"{CASES}:classes", validation_size=40, epochs=2)
    longer = tarmac.extend(first.path, epochs=4)
    assert [row["val_f1"] for row in longer.history] == [row["val_f1"] for row in whole.history]


def test_a_workloads_own_metrics_stay_empty(train):
    workload = set_metric_cases.values
    train(workload)
    assert workload.objective.metrics["r2"].update_called is False


def test_what_was_seen_is_forgotten_once_it_is_computed():
    scores = SetScores({"r2": torchmetrics.R2Score()}, torch.device("cpu"))
    targets = torch.arange(4.0)
    scores.update(-targets[:, None], targets)
    assert scores.compute(Alone())["r2"] < 0
    scores.update(targets[:, None], targets)
    assert scores.compute(Alone()) == {"r2": 1.0}


def regression(**metrics: object) -> Workload:
    return dataclasses.replace(judged_line.workload, objective=Regression(metrics=metrics))


def test_one_that_is_no_single_number_is_refused_before_it_trains(train, tmp_path):
    each = MulticlassF1Score(num_classes=3, average=None)
    workload = dataclasses.replace(
        set_metric_cases.classes, objective=Classification(metrics={"f1": each})
    )
    with pytest.raises(RequestError, match=r"metric f1 \(MulticlassF1Score\) has shape \[3\]"):
        train(workload)
    assert not [*tmp_path.iterdir()]


def test_one_that_refuses_what_the_model_returns_is_named_before_it_trains(train, tmp_path):
    objective = Classification(metrics={"f1": MulticlassF1Score(num_classes=4)})
    workload = dataclasses.replace(set_metric_cases.classes, objective=objective)
    with pytest.raises(RequestError, match=r"metric f1 \(MulticlassF1Score\) refuses a batch"):
        train(workload)
    assert not [*tmp_path.iterdir()]


def test_weights_of_samples_are_refused(train):
    def weighted() -> Dataset:
        data = judged_line.line()
        weights = np.ones(len(data.train), np.float32)
        train = Split(data.train.inputs, data.train.targets, weights)
        return dataclasses.replace(data, train=train)

    workload = dataclasses.replace(regression(r2=torchmetrics.R2Score()), dataset=weighted)
    with pytest.raises(
        RequestError, match="samples have weights, which metric r2 does not support"
    ):
        train(workload)


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        (torchmetrics.R2Score, "the class R2Score"),
        (torchmetrics.MetricCollection([torchmetrics.R2Score()]), "MetricCollection"),
        (0.5, "float"),
    ],
)
def test_what_is_no_metric_is_refused(metric, kind):
    with pytest.raises(
        RequestError, match=f"metric r2 is {kind}, expected a function of"
    ) as caught:
        Objective(loss=judged_line.absolute, metrics={"r2": metric})
    assert "by its own name" in caught.value.hint
