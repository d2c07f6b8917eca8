"""Trainings in fp16: the loss is scaled, and steps whose gradients are not finite are left out."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

import tarmac
from tarmac.errors import TarmacError
from tarmac.runs import Run
from tarmac.testing.faults import failing_once
from tarmac.testing.strategies import WORKLOADS, assert_close, weights_of
from tarmac.training.engine.parameters import Parameters
from tarmac.training.engine.update import Update, build_update
from tarmac.workloads import SGD, Ema, Recipe

MLP = WORKLOADS["mlp"]
# As an attribute of the module workers find it.
WORKLOAD = dataclasses.replace(
    MLP, recipe=dataclasses.replace(MLP.recipe, clip_norm=1.0, ema=Ema(decay=0.5), epochs=3)
)


def train(output, workload=WORKLOAD, **options):
    asked = {"devices": "cpu", "precision": "fp16", "train_size": 48, "seed": 3}
    return tarmac.train(workload, output=output, **(asked | options))


def make():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    parameters = Parameters(model, weight_decay={}, bf16=False, fp16=True)
    sgd = SGD(learning_rate=1.0, momentum=0.5, nesterov=False)
    recipe = Recipe(optimizer=sgd, batch_size=1, epochs=1, ema=Ema(decay=0.5))
    update = build_update(recipe, parameters)
    assert isinstance(update, Update)
    return model, parameters, update


def state_of(parameters, update):
    kept = {"values": parameters.values} | update.state()
    return {name: value.clone() for name, value in kept.items() if "loss_scale" not in name}


def test_gradients_are_those_of_the_unscaled_loss():
    model, parameters, update = make()
    assert model.weight.dtype == torch.float16
    before = parameters.values.clone()
    scale = parameters.loss_scale.value.item()
    assert scale == 65536
    parameters.take_gradients([torch.full(p.shape, scale / 8) for p in parameters.leaves])
    update.step()
    torch.testing.assert_close(parameters.values[:8], before[:8] - 0.125)
    assert update.num_skipped == 0


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_step_whose_gradients_are_not_finite_is_left_out_and_counted(bad):
    _, parameters, update = make()
    before = state_of(parameters, update)
    gradients = [torch.ones(p.shape) for p in parameters.leaves]
    gradients[0][0] = bad
    parameters.take_gradients(gradients)
    update.step()
    assert update.num_skipped == 1
    assert parameters.loss_scale.value.item() == 32768
    after = state_of(parameters, update)
    assert all(torch.equal(after[name], value) for name, value in before.items())
    parameters.take_gradients([torch.ones(p.shape) for p in parameters.leaves])
    update.step()
    assert update.num_skipped == 1
    assert not torch.equal(parameters.values, before["values"])


def test_it_learns_what_fp32_learns_and_counts_in_its_rows(tmp_path):
    half = train(tmp_path / "half")
    whole = train(tmp_path / "whole", precision="fp32")
    assert half.metrics["train_loss"] == pytest.approx(whole.metrics["train_loss"], rel=0.02)
    assert [row["skipped_steps"] for row in half.history] == [0, 0, 0]
    assert "skipped_steps" not in whole.history[0]


class Endless(nn.Module):
    """A finite loss, whose gradient is not: the slope of a root at zero."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 8), nn.Linear(8, 4)

    def forward(self, inputs):
        hidden = self.first(inputs.flatten(1))
        return self.last(hidden + (hidden * 0).abs().sqrt())


# All are skipped, until the scale has sunk, and until patience has ended it.
SKIPPED = [{"epochs": 1}, {"epochs": 40}, {"epochs": 9, "patience": 2, "validation_size": 16}]


@pytest.mark.parametrize("asked", SKIPPED)
def test_a_training_all_of_whose_steps_are_skipped_fails(tmp_path, asked):
    endless = dataclasses.replace(MLP, model=Endless)
    with pytest.raises(TarmacError, match=r"steps of epoch \d+ are skipped") as raised:
        train(tmp_path, endless, **asked)
    assert "--precision fp32" in raised.value.hint
    (run,) = tmp_path.iterdir()
    assert Run.open(run).record.status == "failed"


@pytest.mark.parametrize("strategy", ["towers", "ddp"])
def test_two_devices_make_the_weights_of_one(tmp_path, strategy):
    reference = f"{__file__}:WORKLOAD"
    one = weights_of(train(tmp_path / "one", reference))
    two = weights_of(train(tmp_path / "two", reference, devices="cpu:2", strategy=strategy))
    assert_close(two, one, 0.01, strategy)


def test_a_training_that_failed_goes_on_to_the_same_bits(tmp_path):
    whole = weights_of(train(tmp_path / "whole"))
    with (
        failing_once(tmp_path / "failed-once", 4),
        pytest.raises(RuntimeError, match="failed on purpose"),
    ):
        train(tmp_path / "resumed")
    (path,) = (tmp_path / "resumed").iterdir()
    resumed = weights_of(tarmac.resume(path, workload=WORKLOAD))
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())
