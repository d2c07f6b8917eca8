"""Checks that a strategy gives the same training as one device.

Example, in the tests of a strategy:

    import pytest
    from tarmac.testing import strategies

    @pytest.mark.parametrize("num_replicas", [1, 2, 3])
    @pytest.mark.parametrize("check", strategies.CHECKS)
    def test_mine_conforms(check, num_replicas, tmp_path):
        check(strategies.trainer("mine", num_replicas, tmp_path), num_replicas, tmp_path)

Each check raises an AssertionError that names the difference. All checks train small networks on
the CPU. Tolerances are relative to the largest weight of each tensor, after six steps: some tens of
units in the last place, and more if batch normalisation divides by the difference of two samples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from tarmac.data import Dataset, Split
from tarmac.runs import Run
from tarmac.testing.faults import Failing, failing_once
from tarmac.training import find_strategy, resume, train
from tarmac.workloads import SGD, Adam, Optimizer, Recipe, Scale, Workload

_TOLERANCE = {"fp64": 1e-13, "fp32": 1e-6}
_NORM_TOLERANCE = {"fp64": 1e-12, "fp32": 5e-5}
_TWO_SAMPLES_TOLERANCE = 1e-10


@dataclasses.dataclass(frozen=True)
class Case:
    """A training: the model, the number of samples, and further options."""

    model: str
    precision: str
    accumulate: int = 1
    train_size: int = 50
    sync_batchnorm: bool = False

    @property
    def name(self) -> str:
        """A name that is unique among the cases."""
        sync = "-sync" if self.sync_batchnorm else ""
        return f"{self.model}-{self.precision}-{self.accumulate}-{self.train_size}{sync}"

    def train(self, output: Path, **options: Any) -> Run:
        """Train the case in ``output / name``; ``options`` override the case's own options."""
        defaults: dict[str, Any] = {
            "precision": self.precision,
            "train_size": self.train_size,
            "accumulate": self.accumulate,
            "sync_batchnorm": self.sync_batchnorm,
        }
        return train(WORKLOADS[self.model], output=output / self.name, **(defaults | options))


# A function that trains a case with the strategy under test and returns the run.
Train: TypeAlias = Callable[[Case], Run]


def _mlp(dropout: float = 0.0) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 4)
    )


def _cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 4),
    )


def _norm() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Linear(16, 4),
    )


def _samples() -> Dataset:
    rng = np.random.default_rng(0)
    inputs = rng.integers(0, 256, (96, 8, 8), dtype=np.uint8)
    split = Split(inputs, (inputs.mean((1, 2)) // 8 % 4).astype(np.int64))
    return Dataset(name="squares", train=split, test=split, num_classes=4)


def _workload(name: str, model: Callable[..., nn.Module], optimizer: Optimizer) -> Workload:
    return Workload(
        name=name,
        summary="",
        dataset=_samples,
        model=model,
        recipe=Recipe(
            optimizer=optimizer, batch_size=24, epochs=2, preprocess=Failing(Scale(factor=1 / 255))
        ),
    )


# Module attributes, so that workers find them. The large eps is needed because Adam divides by the
# size of a gradient, which would amplify the rounding of gradients near zero.
mlp_workload = _workload("mlp", _mlp, Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-3))
cnn_workload = _workload("cnn", _cnn, SGD(learning_rate=0.1, momentum=0.9, nesterov=False))
norm_workload = _workload("norm", _norm, SGD(learning_rate=0.1, momentum=0.9, nesterov=False))

WORKLOADS: Mapping[str, Workload] = {
    "mlp": mlp_workload,
    "cnn": cnn_workload,
    "norm": norm_workload,
}

# 50 samples in batches of 24 leave a last batch of 2, which cannot give 3 or 4 replicas a sample
# each. Single samples have no statistics, so batch normalisation gets a last batch of 14.
EVEN = (Case("mlp", "fp64", train_size=48), Case("cnn", "fp32", train_size=48))
# The cases cover every model and every precision, each with and without accumulation.
PLAIN = (
    Case("mlp", "fp64"),
    Case("mlp", "fp32", accumulate=2),
    Case("cnn", "fp32"),
    Case("cnn", "fp64", accumulate=2),
)
LOCAL_NORM = tuple(Case("norm", precision, train_size=62) for precision in ("fp64", "fp32"))
SYNC_NORM = (
    Case("norm", "fp64", train_size=62, sync_batchnorm=True),
    Case("norm", "fp32", train_size=62, sync_batchnorm=True),
    Case("norm", "fp64", train_size=50, sync_batchnorm=True),
)


def trainer(strategy: str, num_replicas: int, output: Path) -> Train:
    """Return a function that trains a case with a strategy, on CPU replicas, below ``output``."""
    options = {"strategy": strategy, "devices": f"cpu:{num_replicas}"}
    return lambda case: case.train(output / f"{strategy}-{num_replicas}", **options)


def weights_of(run: Run) -> dict[str, torch.Tensor]:
    """Return the final weights of a run, by name."""
    return load_file(run.model)


def assert_close(
    ours: Mapping[str, torch.Tensor],
    theirs: Mapping[str, torch.Tensor],
    tolerance: float,
    what: str,
    *,
    buffers: bool = True,
) -> None:
    """Assert that two models have the same weights.

    Args:
        ours: Weights under test, by name.
        theirs: Expected weights, by name.
        tolerance: Maximum difference, relative to the largest value of a tensor.
        what: Text that the failure message begins with.
        buffers: Whether running statistics are compared too.
    """
    for name, value in theirs.items():
        if buffers or not name.endswith(("_mean", "_var", "_tracked")):
            scale = value.abs().max().clamp_min(1e-9)
            error = ((ours[name] - value).abs().max() / scale).item()
            assert error <= tolerance, f"{what}: {name} differs by {error:.1e}"


def check_equal_weights(train: Train, num_replicas: int, output: Path) -> None:
    """Check that replicas with equal shares of every batch give the weights of one device."""
    _check_against_one_device(EVEN, train, num_replicas, output)


def check_uneven_last_batch(train: Train, num_replicas: int, output: Path) -> None:
    """Check the same with a last batch that may have fewer samples than there are replicas."""
    _check_against_one_device(PLAIN, train, num_replicas, output)


def check_local_normalisation(train: Train, num_replicas: int, output: Path) -> None:
    """Check that replicas normalise by their parts of a batch, like accumulation on one device.

    Running statistics are not compared: one device updates them part by part, replicas with the
    mean of all parts.
    """
    for case in LOCAL_NORM:
        expected = weights_of(case.train(output / "single", accumulate=num_replicas, devices="cpu"))
        what = f"{num_replicas} replicas, {case.name}"
        tolerance = _NORM_TOLERANCE[case.precision]
        assert_close(weights_of(train(case)), expected, tolerance, what, buffers=False)


def check_synchronised_normalisation(train: Train, num_replicas: int, output: Path) -> None:
    """Check that replicas with synchronised statistics normalise by the whole batch."""
    for case in SYNC_NORM:
        expected = weights_of(case.train(output / "single", sync_batchnorm=False, devices="cpu"))
        tolerance = _NORM_TOLERANCE[case.precision]
        if case.train_size == 50:
            tolerance = _TWO_SAMPLES_TOLERANCE
        what = f"{num_replicas} replicas, {case.name}"
        assert_close(weights_of(train(case)), expected, tolerance, what)


def check_replicas_draw_different_masks(strategy: str, num_replicas: int, output: Path) -> None:
    """Check that dropout follows the seed, and that each replica draws its own masks."""
    first, again, other = (
        weights_of(_train_with_dropout(strategy, num_replicas, output / str(index), seed))
        for index, seed in enumerate((0, 0, 1))
    )
    single = weights_of(_train_with_dropout("single", 1, output / "single", 0))
    assert all(torch.equal(first[name], again[name]) for name in first), (
        "one seed, different weights"
    )
    assert not all(torch.equal(first[name], other[name]) for name in first), (
        "two seeds, same weights"
    )
    # With the same masks on all replicas, the weights would equal those of one device.
    is_same = all(torch.allclose(first[name], single[name]) for name in first)
    assert is_same == (num_replicas == 1), "replicas share their dropout masks"


def check_resume(strategy: str, num_replicas: int, output: Path) -> None:
    """Check that a training that fails in its second epoch resumes to the same bits."""
    whole = weights_of(_train_with_dropout(strategy, num_replicas, output / "whole", 0))
    num_steps = 3
    in_process = 1 if find_strategy(strategy).process_per_device else num_replicas
    # The first training call of the second epoch; even the last batch gives every replica a part.
    with failing_once(output / "failed-once", num_steps * in_process + 1):
        try:
            _train_with_dropout(strategy, num_replicas, output / "resumed", 0)
        except Exception as error:
            assert "failed on purpose" in str(error), error  # noqa: PT017 - not a pytest module
        else:
            raise AssertionError("the training did not fail on purpose")
    (path,) = (output / "resumed").iterdir()
    assert len(Run.open(path).history) == 1
    resumed = weights_of(resume(path, workload=mlp_workload))
    differing = [name for name, value in whole.items() if not torch.equal(resumed[name], value)]
    assert not differing, f"the resumed weights differ: {', '.join(differing)}"


# The checks that take a `Train` and apply to every strategy. Not all strategies synchronise
# normalisations, and the other checks take a strategy's name.
CHECKS: tuple[Callable[[Train, int, Path], None], ...] = (
    check_equal_weights,
    check_uneven_last_batch,
    check_local_normalisation,
)


def _check_against_one_device(
    cases: tuple[Case, ...], train: Train, num_replicas: int, output: Path
) -> None:
    for case in cases:
        expected = weights_of(case.train(output / "single", accumulate=1, devices="cpu"))
        what = f"{num_replicas} replicas, {case.name}"
        assert_close(weights_of(train(case)), expected, _TOLERANCE[case.precision], what)


def _train_with_dropout(strategy: str, num_replicas: int, output: Path, seed: int) -> Run:
    return train(
        mlp_workload,
        output=output,
        strategy=strategy,
        devices=f"cpu:{num_replicas}",
        settings={"dropout": 0.5},
        precision="fp64",
        train_size=62,
        seed=seed,
    )
