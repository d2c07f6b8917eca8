"""Checks that a workload can be trained, resumed and shared between devices.

Example, in the tests of a workload:

    import pytest
    from tarmac.testing import workloads
    from my_package import workload

    @pytest.mark.parametrize("check", workloads.CHECKS)
    def test_my_workload_conforms(check, tmp_path):
        check(workload, workloads.random_dataset((28, 28), num_classes=10), tmp_path)

Each check raises an AssertionError that names the difference. It takes seconds, with three small
batches per epoch on the CPU.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tarmac.data import Dataset, Split
from tarmac.runs import Run
from tarmac.testing.faults import Failing, failing_once
from tarmac.testing.strategies import assert_close, weights_of
from tarmac.testing.traces import traced
from tarmac.training import apply_settings, bind_dataset, build_model, resume, train
from tarmac.workloads import Preprocess, Workload

_BATCH_SIZE = 8
_NUM_STEPS = 3

# For fp64 after three steps. Some optimizers divide by the size of a gradient near zero.
_TOLERANCE = 1e-8


def random_dataset(
    sample_shape: Sequence[int], num_classes: int, *, highest: int = 255, seed: int = 0
) -> Dataset:
    """Return a small random dataset in the shape of a real one.

    Args:
        sample_shape: Shape of one sample, such as ``(28, 28)``.
        num_classes: Number of classes of the targets.
        highest: Largest value of an input, at most 255. Default 255.
        seed: Seed of the random values. Default 0.
    """
    rng = np.random.default_rng(seed)
    size = _BATCH_SIZE * _NUM_STEPS
    inputs = rng.integers(0, highest + 1, (size, *sample_shape), dtype=np.uint8)
    split = Split(inputs, rng.integers(0, num_classes, size, dtype=np.int64))
    return Dataset(name="random", train=split, test=split, num_classes=num_classes)


def check_trains(workload: Workload, dataset: Dataset, output: Path) -> None:
    """Check that an epoch changes every parameter, with finite loss and weights."""
    small = _small(workload, dataset, epochs=1)
    run = _train(small, output)
    loss = run.metrics["train_loss"]
    assert math.isfinite(loss), f"the loss is {loss}"
    trained = weights_of(run)
    bound, arguments = apply_settings(bind_dataset(small, dataset), {})
    with torch.random.fork_rng(devices=[]):
        initial = build_model(bound, arguments, seed=0)
    for name, value in initial.named_parameters():
        assert trained[name].isfinite().all(), f"{name} is not finite"
        if value.requires_grad:
            assert not torch.equal(trained[name], value.detach().float()), f"{name} does not change"


def check_repeats(workload: Workload, dataset: Dataset, output: Path) -> None:
    """Check that two trainings with one seed give the same bits.

    The check fails if anything draws from another generator than PyTorch's default.
    """
    first, trace = traced(_small(workload, dataset, epochs=1))
    weights = weights_of(_train(first, output / "first"))
    again, other = traced(_small(workload, dataset, epochs=1))
    weights_again = weights_of(_train(again, output / "again"))
    _check_same_bits(
        weights, weights_again, trace.difference(other, _NUM_STEPS), "one seed, two trainings"
    )


def check_resumes(workload: Workload, dataset: Dataset, output: Path) -> None:
    """Check that a training that fails in its second epoch resumes to the same bits.

    The check fails if anything but parameters, buffers and PyTorch's generators has a state.
    """
    small, trace = traced(_small(workload, dataset, epochs=2))
    whole = weights_of(_train(small, output / "whole"))
    small, other = traced(_small(workload, dataset, epochs=2))
    with failing_once(output / "failed-once", _NUM_STEPS + 1):
        try:
            _train(small, output / "resumed")
        except RuntimeError as error:
            assert "failed on purpose" in str(error), error  # noqa: PT017 - not a pytest module
        else:
            raise AssertionError("the training did not fail on purpose")
    (path,) = (output / "resumed").iterdir()
    resumed = weights_of(resume(path, workload=small))
    where = trace.difference(other, _NUM_STEPS, done=_NUM_STEPS)
    _check_same_bits(whole, resumed, where, "the resumed training differs")


def check_equal_on_two_devices(workload: Workload, dataset: Dataset, output: Path) -> None:
    """Check that two devices give the weights of one device that accumulates two parts.

    Dropout and augmentation are disabled, because their draws differ between devices on purpose.
    Running statistics are not compared, because one device updates them part by part.
    """
    small = alike_on_devices(workload, dataset)
    weights_on_one = weights_of(_train(small, output / "one", precision="fp64", accumulate=2))
    options: dict[str, Any] = {"precision": "fp64", "devices": "cpu:2", "strategy": "towers"}
    weights_on_two = weights_of(_train(small, output / "two", **options))
    assert_close(
        weights_on_two, weights_on_one, _TOLERANCE, f"{workload.name} on two devices", buffers=False
    )


def check_equal_on_two_processes(
    workload: Workload,
    dataset: Dataset,
    output: Path,
    *,
    reference: str,
    strategy: str = "ddp",
) -> None:
    """Check the same with two processes, which replicate (``ddp``) or shard (``fsdp``) the model.

    Args:
        workload: Workload to train on one device and on two processes.
        dataset: Small dataset, the same as that of ``reference``.
        output: Empty directory for the runs of the check.
        reference: Reference by which the processes find
            ``alike_on_devices(workload, dataset)``.
        strategy: Strategy of the two processes: ``ddp`` or ``fsdp``. Default ``ddp``.
    """
    small = alike_on_devices(workload, dataset)
    weights_on_one = weights_of(_train(small, output / "one", precision="fp64", accumulate=2))
    options: dict[str, Any] = {"precision": "fp64", "devices": "cpu:2", "strategy": strategy}
    weights_on_two = weights_of(_train(reference, output / "two", **options))
    what = f"{workload.name} on two processes by {strategy}"
    assert_close(weights_on_two, weights_on_one, _TOLERANCE, what, buffers=False)


CHECKS: tuple[Callable[[Workload, Dataset, Path], None], ...] = (
    check_trains,
    check_repeats,
    check_resumes,
    check_equal_on_two_devices,
)


def alike_on_devices(workload: Workload, dataset: Dataset) -> Workload:
    """Return the workload on small data, for one epoch, whose only random draw is its weights."""
    return _without_draws(_small(workload, dataset, epochs=1))


def _check_same_bits(
    first: Mapping[str, torch.Tensor],
    second: Mapping[str, torch.Tensor],
    where: str | None,
    what: str,
) -> None:
    """Assert that two trainings give the same weights; the message names the first difference."""
    differing = [name for name, value in first.items() if not torch.equal(second[name], value)]
    if differing and where is None:
        where = f"{differing[0]} differs after the last step"
    assert not differing, f"{what}: {where}; final difference in {_listed(differing)}"


def _listed(names: Sequence[str]) -> str:
    if len(names) <= 3:
        return ", ".join(names)
    return f"{', '.join(names[:3])} and {len(names) - 3} more"


def _small(workload: Workload, dataset: Dataset, *, epochs: int) -> Workload:
    """Return the workload on other data, with small batches and a preprocessing that can fail."""
    recipe = dataclasses.replace(
        workload.recipe,
        batch_size=_BATCH_SIZE,
        epochs=epochs,
        preprocess=Failing(workload.recipe.preprocess),
    )
    return dataclasses.replace(workload, dataset=lambda: dataset, recipe=recipe)


def _train(workload: str | Workload, output: Path, **options: Any) -> Run:
    defaults: dict[str, Any] = {"devices": "cpu", "precision": "fp32", "seed": 0}
    # Datasets that are read on demand may have more samples.
    defaults["train_size"] = _BATCH_SIZE * _NUM_STEPS
    return train(workload, output=output, **(defaults | options))


def _without_draws(workload: Workload) -> Workload:
    """Return the workload without dropout and random preprocessing."""
    recipe = dataclasses.replace(workload.recipe, preprocess=_plainly(workload.recipe.preprocess))

    @functools.wraps(workload.model)
    def model(*args: Any, **kwargs: Any) -> nn.Module:
        network = workload.model(*args, **kwargs)
        for layer in network.modules():
            if isinstance(layer, nn.modules.dropout._DropoutNd):
                layer.p = 0.0
        return network

    return dataclasses.replace(workload, model=model, recipe=recipe)


def _plainly(preprocess: Preprocess) -> Preprocess:
    """Return the preprocessing with ``training`` always False."""

    def plain(inputs: Any, *, training: bool, dtype: torch.dtype) -> Any:  # noqa: ARG001 - protocol
        return preprocess(inputs, training=False, dtype=dtype)

    return plain
