"""A regression that trains in a moment, judged by its mean error: a workload for tests."""

import numpy as np
from torch import nn

from tarmac.data import Dataset, Split
from tarmac.workloads import SGD, Expectation, Recipe, Regression, Workload


def absolute(output, targets):
    return (output.flatten() - targets).abs()


def is_near(output, targets):
    return absolute(output, targets) < 0.5


def line():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(200, 4)).astype("float32")
    targets = (inputs @ np.array([1.0, -2.0, 0.5, 3.0]) + 0.1).astype("float32")
    train, test = Split(inputs[:160], targets[:160]), Split(inputs[160:], targets[160:])
    return Dataset(name="line", train=train, test=test)


def model(hidden: int = 4):
    return nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 1))


workload = Workload(
    name="line",
    summary="values on a plane",
    dataset=line,
    model=model,
    objective=Regression(metrics={"mae": absolute, "near": is_near}, judged_by="mae"),
    recipe=Recipe(
        optimizer=SGD(learning_rate=0.02, momentum=0.0, nesterov=False), batch_size=32, epochs=3
    ),
    expectation=Expectation(at_most=5.0, source="a look at it"),
)
