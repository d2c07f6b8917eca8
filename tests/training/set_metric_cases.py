"""Workloads with metrics of all samples together, as torchmetrics has them."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import torchmetrics
from torch import nn
from torchmetrics.classification import (
    MulticlassAUROC,
    MulticlassF1Score,
    MulticlassPrecision,
    MulticlassRecall,
)

# Ranks import this file too.
sys.path.append(str(Path(__file__).parents[1]))
import judged_line
from tarmac.data import Dataset, Split
from tarmac.workloads import SGD, Classification, Recipe, Regression, Workload

_PRECISION, _RECALL = (kind(num_classes=3) for kind in (MulticlassPrecision, MulticlassRecall))


def groups():
    rng = np.random.default_rng(0)
    # The third class is rare: accuracy and macro F1 differ.
    classes = rng.choice(3, size=260, p=[0.5, 0.4, 0.1])
    points = rng.normal(size=(260, 2)) + np.array([[0, 0], [1.5, 0], [0, 1.5]])[classes]
    points = points.astype("float32")
    train, test = Split(points[:200], classes[:200]), Split(points[200:], classes[200:])
    return Dataset(name="groups", train=train, test=test, num_classes=3)


def model():
    return nn.Linear(2, 3)


classes = Workload(
    name="groups",
    summary="points of three classes, one of them rare",
    dataset=groups,
    model=model,
    objective=Classification(
        metrics={
            "f1": MulticlassF1Score(num_classes=3, average="macro"),
            "auroc": MulticlassAUROC(num_classes=3),
            "both": 2 * _PRECISION * _RECALL / (_PRECISION + _RECALL),
        },
        judged_by="f1",
        direction="max",
    ),
    recipe=Recipe(
        optimizer=SGD(learning_rate=0.3, momentum=0.0, nesterov=False), batch_size=32, epochs=3
    ),
)

values = dataclasses.replace(
    judged_line.workload,
    objective=Regression(
        metrics={"r2": torchmetrics.R2Score(), "mae": judged_line.absolute},
        judged_by="r2",
        direction="max",
    ),
    expectation=None,
)
