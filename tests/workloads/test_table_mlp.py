"""table-mlp: any table of values, standardised by what it is trained on."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import tarmac
from tarmac.data import Dataset, Split
from tarmac.errors import RequestError
from tarmac.workloads import find_workload
from tarmac.workloads.table_mlp import FullPrecision, model, standardise


def rows(count: int, seed: int, width: int = 1) -> Split:
    """Return years and areas, and prices that are linear in them."""
    draws = np.random.default_rng(seed)
    inputs = np.stack([draws.integers(1900, 2020, count), draws.normal(120, 40, count)], axis=1)
    price = 300_000 + inputs @ np.array([1000.0, 2000.0])
    targets = price if width == 1 else np.stack([price] * width, axis=1)
    return Split(inputs.astype(np.float32), targets.astype(np.float32))


@pytest.mark.parametrize("width", [1, 2])
def test_raw_prices_are_learnt_in_few_epochs(tmp_path, width):
    dataset = Dataset("houses", rows(400, 0, width), rows(100, 1, width))
    workload = dataclasses.replace(find_workload("table-mlp"), dataset=lambda: dataset)
    run = tarmac.train(workload, epochs=20, output=tmp_path, device="cpu", sampling=False)
    assert run.metrics["test_loss"] < 0.05 * dataset.test.targets.var()


def test_columns_and_targets_are_standardised_and_a_constant_one_is_left():
    network = model(sample_shape=(3,), target_shape=(), hidden=4)
    inputs = torch.tensor([[1.0, 5, 1e6], [3.0, 5, 1e6 + 2]])
    standardise(network, inputs, targets=torch.tensor([10.0, 30.0]))
    assert network.input_mean.tolist() == [2, 5, 1e6 + 1]
    assert network.input_std.tolist() == [1, 1, 1]
    assert (network.target_mean.item(), network.target_std.item()) == (20, 10)
    assert network(inputs).shape == (2,)


def test_rows_stay_in_fp32_where_layers_compute_in_bf16():
    years = torch.tensor([[2019.0], [2020.0]])
    kept = FullPrecision()(years, training=True, dtype=torch.bfloat16)
    assert kept.tolist() == [[2019], [2020]]


def test_classes_are_refused_with_the_workload_for_them_before_a_run_is_made(tmp_path):
    numbers = np.zeros((4, 2), dtype=np.float32)
    species = Split(numbers, np.array([0, 1, 2, 0]))
    dataset = Dataset("species", species, species, num_classes=3)
    workload = dataclasses.replace(find_workload("table-mlp"), dataset=lambda: dataset)
    with pytest.raises(RequestError, match="targets of species are classes") as caught:
        tarmac.train(workload, output=tmp_path, device="cpu")
    assert "tarmac train mlp --set dataset=species" in str(caught.value)
    assert not [*tmp_path.iterdir()]


def test_whole_numbers_that_are_no_classes_are_values():
    network = model(sample_shape=(1,), target_shape=(), hidden=4)
    standardise(network, torch.ones(2, 1), targets=torch.tensor([10, 30]))
    assert (network.target_mean.item(), network.target_std.item()) == (20, 10)


def test_values_by_name_are_answered_with_table_mlp_where_classes_are_expected():
    with pytest.raises(RequestError) as caught:
        tarmac.train("mlp", settings={"dataset": "diabetes"})
    hint = "Train on a table: tarmac train table-mlp --set dataset=diabetes"
    assert caught.value.hint == hint
