"""Values that no network can have are refused before a study is made."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from tarmac import data
from tarmac.studies import Choices, Numbers
from tarmac.studies.errors import FieldError
from tarmac.studies.evaluation.corners import check_corners
from tarmac.studies.space import Space
from tarmac.workloads import find_workload

DIGITS = find_workload("digits-mlp")


def heads_of(width: int = 6, heads: int = 2) -> nn.Module:
    if width % heads:
        raise ValueError("width must be divisible by heads")
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, 10))


def test_a_value_that_fits_others_than_the_defaults_is_kept():
    workload = dataclasses.replace(DIGITS, model=heads_of)
    space = Space({"width": Choices((6, 8)), "heads": Choices((2, 4))})
    check_corners(space, workload, data.load("digits"), {})
    with pytest.raises(FieldError, match="heads has 5, which no network can have"):
        check_corners(
            Space({"width": Choices((6, 8)), "heads": Choices((2, 5))}),
            workload,
            data.load("digits"),
            {},
        )


def reads_values(hidden: int = 8) -> nn.Module:
    layer = nn.Linear(64, hidden)
    if layer.weight.sum().item() > 1e9:
        raise AssertionError
    return nn.Sequential(nn.Flatten(), layer, nn.Linear(hidden, 10))


def test_a_model_that_reads_its_weights_is_tried_with_them():
    workload = dataclasses.replace(DIGITS, model=reads_values)
    check_corners(Space({"hidden": Numbers(4, 8, whole=True)}), workload, data.load("digits"), {})
    with pytest.raises(FieldError, match="hidden ends at -4"):
        check_corners(
            Space({"hidden": Numbers(-4, 8, whole=True)}), workload, data.load("digits"), {}
        )


@pytest.mark.parametrize(("hidden", "device"), [(16, "cpu"), (20_000, "meta")])
def test_only_large_networks_are_called_on_the_meta_device(hidden: int, device: str):
    """The first call there imports TorchDynamo, which takes longer than a small network."""
    devices = set()

    class Noting(nn.Linear):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            devices.add(values.device.type)
            return super().forward(values)

    def network(hidden: int = 16) -> nn.Module:
        return nn.Sequential(nn.Flatten(), Noting(64, hidden), nn.Linear(hidden, 10))

    workload = dataclasses.replace(DIGITS, model=network)
    check_corners(Space({"hidden": Choices((hidden,))}), workload, data.load("digits"), {})
    assert devices == {device}
