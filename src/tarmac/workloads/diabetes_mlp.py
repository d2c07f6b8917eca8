"""diabetes-mlp: a regression from ten numbers of a patient to the disease's progress, in seconds.

Data: Efron et al.'s 442 patients (`sklearn.datasets.load_diabetes`), 354 to train and 88 to test.
Recipe: AdamW with PyTorch's documented betas, a rate of 0.003 falling to 0 along a cosine: our own
choice, made on 70 patients held out of the training set.

Expected: five seeds reach a mean squared error of 3158 to 3272 on the test set, in 0.8 s on one
core. On the same split, ordinary least squares reaches 3279 (scikit-learn's LinearRegression), and
the mean of the targets alone 5935. Published: scikit-learn's "Linear Regression Example" prints
2548 and R2 0.47, for body mass index alone and the last 20 patients as its test.
"""

from __future__ import annotations

import torch
from torch import nn

from tarmac.workloads.base import Recipe, Workload
from tarmac.workloads.expectation import Expectation
from tarmac.workloads.objectives import Regression
from tarmac.workloads.optimizers import AdamW
from tarmac.workloads.schedules import Cosine

# Mean and standard deviation of the training targets, to which the network's output is scaled.
_MEAN, _STD = 152.1, 77.1


class InUnits(nn.Module):
    """A layer that scales standardised outputs to the unit of the targets."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``x`` scaled, of the same shape."""
        return x * _STD + _MEAN


def model(hidden: int = 64, dropout: float = 0.3) -> nn.Module:
    """Build 10-hidden-1 with ReLU."""
    return nn.Sequential(
        nn.Linear(10, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 1), InUnits()
    )


workload = Workload(
    name="diabetes-mlp",
    summary="a small regression on the embedded table of diabetes; needs no download",
    dataset="diabetes",
    model=model,
    objective=Regression("mse"),
    recipe=Recipe(
        optimizer=AdamW(learning_rate=3e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.1),
        schedule=Cosine(),
        batch_size=32,
        epochs=60,
    ),
    expectation=Expectation(
        at_most=3400,
        source="ordinary least squares reaches 3279 on the same split, the mean alone 5935",
    ),
)
