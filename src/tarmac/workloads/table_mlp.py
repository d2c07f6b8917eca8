"""table-mlp: rows of numbers to one value or several, for any table.

A network of two hidden layers. Columns and targets are standardised by the mean and deviation of
the training split, which are part of the model: it takes raw rows and answers in the targets' unit.
Recipe: that of diabetes-mlp, in batches of 64.

Expected: nothing of other tables. On Efron's 442 patients seeds 0 to 4 reach a mean squared error
of 3268 to 3416 on the test set, where ordinary least squares reaches 3279 and the mean of the
targets alone 5935.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import nn

from tarmac.errors import RequestError
from tarmac.workloads import diabetes_mlp
from tarmac.workloads.base import Workload
from tarmac.workloads.objectives import Regression

# Of more rows, the mean and the deviation of these serve.
_MAX_ROWS = 1_000_000


@dataclasses.dataclass(frozen=True)
class FullPrecision:
    """Keeps rows in fp32 also where layers compute in bf16: a year loses its digits there."""

    def __call__(self, inputs: torch.Tensor, *, training: bool, dtype: torch.dtype) -> torch.Tensor:
        """Return ``inputs`` in fp32, or in ``dtype`` where that is wider."""
        del training
        return inputs.to(torch.promote_types(dtype, torch.float32))


class TableNetwork(nn.Module):
    """Standardises rows, applies ``body``, and brings its answers to the targets' unit."""

    input_mean: torch.Tensor
    input_std: torch.Tensor
    target_mean: torch.Tensor
    target_std: torch.Tensor

    def __init__(
        self, body: nn.Sequential, num_columns: int, target_shape: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.body = body
        self.target_shape = target_shape
        for name, shape in (("input", (num_columns,)), ("target", target_shape)):
            self.register_buffer(f"{name}_mean", torch.zeros(shape))
            self.register_buffer(f"{name}_std", torch.ones(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[batch, *target_shape]`` for rows ``[batch, num_columns]``."""
        standard = (x - self.input_mean) / self.input_std
        dtype = next(self.body.parameters()).dtype
        answers: torch.Tensor = self.body(standard.to(dtype)).to(x.dtype)
        return answers.view(-1, *self.target_shape) * self.target_std + self.target_mean


def standardise(model: nn.Module, inputs: torch.Tensor, *, targets: torch.Tensor) -> None:
    """Set what columns and targets are standardised by; a constant one keeps its deviation of 1."""
    for name, rows in (("input", inputs), ("target", targets)):
        # In fp64, for a deviation that is small beside its mean.
        std, mean = torch.std_mean(rows.double(), dim=0, correction=0)
        getattr(model, f"{name}_mean").copy_(mean)
        getattr(model, f"{name}_std").copy_(torch.where(std > 0, std, 1.0))


def model(
    *,
    sample_shape: tuple[int, ...],
    target_shape: tuple[int, ...],
    hidden: int = 64,
    dropout: float = 0.2,
) -> nn.Module:
    """Build columns-hidden-hidden-targets with ReLU.

    Raises:
        RequestError: The samples are no rows of numbers.
    """
    if len(sample_shape) != 1:
        raise RequestError(f"table-mlp takes rows of numbers, and samples are {sample_shape}")
    if hidden < 1:
        raise RequestError(f"hidden is {hidden}, expected at least 1")
    body = nn.Sequential(
        *(nn.Linear(sample_shape[0], hidden), nn.ReLU(), nn.Dropout(dropout)),
        *(nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout)),
        nn.Linear(hidden, math.prod(target_shape)),
    )
    return TableNetwork(body, sample_shape[0], target_shape)


workload = Workload(
    name="table-mlp",
    summary="a small regression on any table, whose columns it standardises; needs no download",
    dataset="diabetes",
    model=model,
    objective=Regression("mse"),
    recipe=dataclasses.replace(
        diabetes_mlp.workload.recipe, preprocess=FullPrecision(), batch_size=64
    ),
    initialise=standardise,
    initialise_samples=_MAX_ROWS,
)
