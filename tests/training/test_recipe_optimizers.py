"""What a recipe may ask of optimizers: decoupled decay, by patterns, the same on all devices."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import tarmac
from tarmac import RequestError
from tarmac.testing.faults import failing_once
from tarmac.testing.strategies import WORKLOADS, assert_close, weights_of
from tarmac.training import apply_settings, settings_of
from tarmac.training.engine.moving_average import MovingAverage
from tarmac.training.engine.parameters import Parameters
from tarmac.training.engine.update import build_update
from tarmac.workloads import SGD, Adam, AdamW, Ema, ParameterGroup, Plateau, Recipe, Workload

ADAMW = AdamW(learning_rate=1e-2, beta1=0.9, beta2=0.99, eps=1e-3, weight_decay=0.1)


def changed(**parts) -> Workload:
    workload = WORKLOADS["mlp"]
    return dataclasses.replace(workload, recipe=dataclasses.replace(workload.recipe, **parts))


WORKLOAD = changed(
    optimizer=ADAMW,
    weight_decay={"*.bias": 0.0},
    clip_norm=0.1,
    clip_value=0.01,
    ema=Ema(decay=0.5, every=2),
)


def train(output, workload=WORKLOAD, **options):
    asked = {"devices": "cpu", "precision": "fp64", "train_size": 62, "seed": 3}
    return tarmac.train(workload, output=output, **(asked | options))


def groups_of(recipe: Recipe):
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    parameters = Parameters(
        model,
        weight_decay=recipe.weight_decay,
        owners=tuple(recipe.parameter_groups),
        default_decays=recipe.default_decays,
        bf16=False,
    )
    return {
        name: (group.owner, group.weight_decay)
        for group in parameters.groups
        for name in group.shapes
    }


def test_patterns_say_whose_decoupled_decay_is_another():
    recipe = Recipe(
        optimizer=ADAMW,
        batch_size=1,
        epochs=1,
        weight_decay={"*.bias": 0.0},
        parameter_groups={
            "1.*": ParameterGroup(optimizer=SGD(learning_rate=1, momentum=0, nesterov=False))
        },
    )
    assert groups_of(recipe) == {
        "0.weight": (0, 0.1),
        "0.bias": (0, 0.0),
        "1.weight": (1, 0.0),
        "1.bias": (1, 0.0),
    }


def test_the_decay_of_an_optimizer_is_a_setting():
    assert settings_of(WORKLOAD)["optimizer.weight_decay"] == 0.1
    other, _ = apply_settings(WORKLOAD, {"optimizer.weight_decay": "0.3"})
    assert other.recipe.optimizer == dataclasses.replace(ADAMW, weight_decay=0.3)
    offered = {"adam": WORKLOADS["mlp"].recipe.optimizer, "adamw": ADAMW}
    choosing = dataclasses.replace(WORKLOADS["mlp"], optimizers=offered)
    other, _ = apply_settings(choosing, {"optimizer": "adamw", "optimizer.weight_decay": 0.2})
    assert other.recipe.optimizer == dataclasses.replace(ADAMW, weight_decay=0.2)


def test_steps_written_by_hand_are_for_optimizers_that_they_know():
    asked = ("the optimizer AdamW", "clip_norm", "clip_value", "ema")
    assert WORKLOAD.recipe.beyond_plain_steps == asked
    plain = Adam(learning_rate=1, beta1=0.9, beta2=0.9, eps=0.1)
    assert not changed(optimizer=plain).recipe.beyond_plain_steps


def test_the_weights_are_those_of_pytorchs_adamw(tmp_path):
    workload = changed(optimizer=ADAMW, weight_decay={"*.bias": 0.0}, epochs=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = workload.model().double()
    biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
    others = [p for name, p in model.named_parameters() if not name.endswith("bias")]
    theirs = torch.optim.AdamW(
        [{"params": others}, {"params": biases, "weight_decay": 0.0}],
        lr=1e-2,
        betas=(0.9, 0.99),
        eps=1e-3,
        weight_decay=0.1,
    )
    run = train(tmp_path, workload, train_size=24, validation_split="last")
    data = workload.dataset().train
    inputs = torch.tensor(data.inputs[:24]).double() / 255
    loss = nn.functional.cross_entropy(model(inputs), torch.tensor(data.targets[:24]))
    loss.backward()
    theirs.step()
    assert_close(
        weights_of(run), {n: p.detach() for n, p in model.named_parameters()}, 1e-6, "one step"
    )


@pytest.mark.parametrize("strategy", ["towers", "ddp"])
def test_two_devices_make_the_weights_of_one(tmp_path, strategy):
    # Processes of their own find a workload by its module.
    reference = f"{__file__}:WORKLOAD"
    one = weights_of(train(tmp_path / "one", reference))
    two = weights_of(train(tmp_path / "two", reference, devices="cpu:2", strategy=strategy))
    assert_close(two, one, 1e-10, strategy)
    unclipped = train(tmp_path / "unclipped", settings={"clip_norm": 0, "clip_value": 0})
    assert not all(torch.equal(weights_of(unclipped)[name], value) for name, value in one.items())


def test_a_training_that_failed_goes_on_to_the_same_bits(tmp_path):
    whole = weights_of(train(tmp_path / "whole", precision="fp32"))
    with (
        failing_once(tmp_path / "failed-once", 4),
        pytest.raises(RuntimeError, match="failed on purpose"),
    ):
        train(tmp_path / "resumed", precision="fp32")
    (path,) = (tmp_path / "resumed").iterdir()
    resumed = weights_of(tarmac.resume(path, workload=WORKLOAD))
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


def test_clipping_sees_the_gradient_of_all_parameters():
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    ours = Parameters(model, weight_decay={"0.weight": 0.5}, bf16=False)
    other = torch.Generator().manual_seed(0)
    gradients = [torch.randn(leaf.shape, generator=other) for leaf in ours.leaves]
    sgd = SGD(learning_rate=1.0, momentum=0.0, nesterov=False)
    recipe = Recipe(optimizer=sgd, batch_size=1, epochs=1, clip_norm=0.5, clip_value=0.2)
    update = build_update(recipe, ours)
    ours.take_gradients(gradients)
    update.step()
    clipped = [group.gradients for group in ours.groups]
    theirs = [nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    for parameter, gradient in zip(theirs, gradients, strict=True):
        parameter.grad = gradient
    nn.utils.clip_grad_norm_(theirs, 0.5)
    nn.utils.clip_grad_value_(theirs, 0.2)
    expected = torch.cat([gradient.flatten() for gradient in gradients])
    torch.testing.assert_close(torch.cat(clipped).sort().values, expected.sort().values)
    # A gradient that is short enough stays as it is.
    small = [gradient / 100 for gradient in gradients]
    ours.take_gradients(small)
    update.step()
    kept = torch.cat([group.gradients for group in ours.groups])
    assert torch.equal(kept.sort().values, torch.cat([s.flatten() for s in small]).sort().values)


def test_a_bound_of_gradients_is_a_setting():
    workload, _ = apply_settings(WORKLOAD, {"clip_norm": "2", "clip_value": 0})
    assert (workload.recipe.clip_norm, workload.recipe.clip_value) == (2.0, 0.0)
    with pytest.raises(RequestError, match=r"clip_norm is -1\.0, expected at least 0"):
        apply_settings(WORKLOAD, {"clip_norm": -1})


def test_a_training_follows_its_losses_and_goes_on_with_the_rates_it_had(tmp_path):
    workload = changed(schedule=Plateau(ratio=0.5, patience=0, threshold=0.9), epochs=4)
    options = {"validation_size": 10, "precision": "fp32"}
    whole = train(tmp_path / "whole", workload, **options)
    rates = [row["learning_rate"] for row in whole.history]
    assert rates == pytest.approx([1e-3, 1e-3, 5e-4, 2.5e-4])
    with (
        failing_once(tmp_path / "failed-once", 11),
        pytest.raises(RuntimeError, match="failed on purpose"),
    ):
        train(tmp_path / "resumed", workload, **options)
    (path,) = (tmp_path / "resumed").iterdir()
    resumed = tarmac.resume(path, workload=workload)
    assert [row["learning_rate"] for row in resumed.history] == rates
    ours, theirs = weights_of(whole), weights_of(resumed)
    assert all(torch.equal(theirs[name], value) for name, value in ours.items())


def test_a_plateau_of_some_parameters_changes_their_rate_alone():
    group = ParameterGroup(optimizer=ADAMW, schedule=Plateau(patience=0))
    recipe = changed(parameter_groups={"*.bias": group}).recipe
    assert recipe.rate_factors([1.0, 1.0]) == (1.0, 0.1)
    assert changed(schedule=Plateau()).recipe.beyond_plain_steps == ("the schedule Plateau",)


def test_an_average_follows_its_formula():
    values = torch.zeros(3, dtype=torch.float64)
    average = MovingAverage(Ema(decay=0.15, every=2), values)
    expected = values.clone()
    for number in range(1, 9):
        values += number
        average.update()
        if number % 2 == 0:
            before = number // 2 - 1
            kept = min(0.15, before / (before + 10))
            expected = kept * expected + (1 - kept) * values
        torch.testing.assert_close(average.values, expected)


def test_the_average_is_scored_and_written(tmp_path):
    options = {"epochs": 1, "validation_size": 10, "precision": "bf16"}
    run = train(tmp_path / "averaged", **options)
    (checkpoint,) = run.checkpoints.glob("epoch-*.safetensors")
    saved = load_file(checkpoint)
    written = weights_of(run)
    assert not any(torch.equal(saved[f"model/{name}"], value) for name, value in written.items())
    flat = torch.cat([value.flatten() for value in written.values()]).sort().values
    average = saved["optimizer/ema.values"].sort().values
    assert torch.equal(average[average != 0], flat[flat != 0])
    # Training goes on from the weights, so those are what they are without an average.
    plain = dataclasses.replace(WORKLOAD, recipe=dataclasses.replace(WORKLOAD.recipe, ema=None))
    other = weights_of(train(tmp_path / "plain", plain, **options))
    assert all(torch.equal(saved[f"model/{name}"], value) for name, value in other.items())
    # The score is that of the average.
    model = WORKLOAD.model()
    model.load_state_dict(written)
    test = WORKLOAD.dataset().test
    with torch.no_grad():
        loss = nn.functional.cross_entropy(
            model(torch.tensor(test.inputs) / 255), torch.tensor(test.targets)
        )
    assert run.metrics["test_loss"] == pytest.approx(loss.item(), rel=0.02)


def test_the_numbers_of_an_average_are_settings():
    workload, _ = apply_settings(WORKLOAD, {"ema.decay": 0.9, "ema.every": "3"})
    assert workload.recipe.ema == Ema(decay=0.9, every=3)
    with pytest.raises(RequestError, match=r"ema\.decay is 1\.0, expected at least 0 and below 1"):
        apply_settings(WORKLOAD, {"ema.decay": 1})
    with pytest.raises(RequestError, match=r"ema\.every is 0, expected at least 1"):
        Ema(decay=0, every=0)
