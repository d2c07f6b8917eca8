"""That a training leaves nothing behind it in its process."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import pytest

import tarmac
from tarmac.testing.strategies import WORKLOADS


@pytest.fixture
def without_collector():
    """Let objects go only when nothing refers to them."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"accumulate": 2},
        {"feed": "prefetch"},
        {"devices": "cpu:2", "strategy": "towers"},
    ],
)
@pytest.mark.usefixtures("without_collector")
def test_a_finished_training_frees_its_model_at_once(tmp_path, options):
    models = []

    def model():
        made = WORKLOADS["norm"].model()
        models.append(weakref.ref(made))
        return made

    mine = dataclasses.replace(WORKLOADS["norm"], name="mine", model=model)
    tarmac.train(mine, output=tmp_path, **({"devices": "cpu"} | options))
    assert models
    assert [made() for made in models] == [None] * len(models)
