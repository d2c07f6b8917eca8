"""What a recipe may ask beside the plain parts: the same on all devices, resumable, recorded."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import tarmac
from tarmac import RequestError
from tarmac.testing.faults import failing_once
from tarmac.testing.strategies import assert_close, weights_of
from tarmac.training import apply_settings, build_model
from tarmac.training.engine.data_initialisation import initialise_from_data
from tarmac.training.engine.parameter_groups import GroupedOptimizer, build_optimizer
from tarmac.training.engine.parameters import Parameters
from tarmac.training.engine.prediction import predict
from tarmac.training.planning.make import make_plan
from tarmac.training.planning.options import Options
from tarmac.training.shares import Shares
from tarmac.workloads import (
    SGD,
    CropAndFlip,
    Linear,
    MirrorAndShift,
    ParameterGroup,
    Recipe,
    TorchOptimizer,
    Workload,
    find_workload,
)

REFERENCE = f"{Path(__file__).with_name('recipes.py')}:workload"
EVERY_PART = find_workload(REFERENCE)
RECIPE = EVERY_PART.recipe


def train(output, workload=REFERENCE, **options):
    asked = {"devices": "cpu", "precision": "fp64", "train_size": 62, "seed": 3}
    return tarmac.train(workload, output=output, **(asked | options))


def changed(**parts) -> Workload:
    return dataclasses.replace(EVERY_PART, recipe=dataclasses.replace(RECIPE, **parts))


@pytest.mark.parametrize(
    "options",
    [{"devices": "cpu:2", "strategy": "towers"}, {"devices": "cpu:2", "strategy": "ddp"}],
    ids=["towers", "ddp"],
)
def test_two_devices_make_the_weights_of_one(tmp_path, options):
    one = weights_of(train(tmp_path / "one", accumulate=2))
    two = weights_of(train(tmp_path / "two", **options))
    assert_close(two, one, 1e-10, "every part", buffers=False)


@pytest.mark.parametrize("feed", ["prefetch", "direct"])
def test_every_feed_augments_alike(tmp_path, feed):
    resident = weights_of(train(tmp_path / "resident", epochs=2))
    other = weights_of(train(tmp_path / feed, feed=feed, epochs=2))
    assert all(torch.equal(other[name], value) for name, value in resident.items())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_training_that_failed_goes_on_to_the_same_bits(tmp_path, precision):
    whole = weights_of(train(tmp_path / "whole", precision=precision))
    with (
        failing_once(tmp_path / "failed-once", 5),
        pytest.raises(RuntimeError, match="failed on purpose"),
    ):
        train(tmp_path / "resumed", precision=precision)
    (path,) = (tmp_path / "resumed").iterdir()
    resumed = weights_of(tarmac.resume(path))
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


def test_frozen_parameters_stay_as_the_data_made_them(tmp_path):
    plan = make_plan(EVERY_PART, REFERENCE, Options(devices="cpu", train_size=62, seed=3))
    with torch.random.fork_rng(devices=[]):
        model = build_model(EVERY_PART, {}, seed=3)
    drawn = model.get_parameter("whiten.weight").clone()
    initialise_from_data(model, plan)
    expected = model.get_parameter("whiten.weight").detach()
    assert not torch.equal(expected, drawn)
    for precision in ("fp32", "bf16"):
        weights = weights_of(train(tmp_path / precision, precision=precision))
        assert torch.equal(weights["whiten.weight"], expected)
        assert torch.equal(weights["norm.weight"], torch.ones(8))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_frozen_weights_are_the_first_ranks_everywhere(tmp_path, precision):
    reference = REFERENCE.replace(":workload", ":unseeded_workload")
    options = {"devices": "cpu:2", "strategy": "ddp", "epochs": 1, "precision": precision}
    run = train(tmp_path, reference, **options)
    weights = weights_of(run)
    # Each rank has scored a half of the test set; the file has the first one's weights.
    model = find_workload(reference).model()
    model.load_state_dict(weights)
    test = EVERY_PART.dataset().test
    inputs = RECIPE.preprocess(torch.tensor(test.inputs), training=False, dtype=torch.float32)
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model(inputs), torch.tensor(test.targets))
    assert run.metrics["test_loss"] == pytest.approx(
        loss.item(), rel=1e-5 if precision == "fp32" else 0.02
    )


def test_frozen_weights_of_cast_layers_are_cast_once():
    model = EVERY_PART.model()
    parameters = Parameters(model, weight_decay={}, bf16=True)
    frozen = model.get_parameter("whiten.weight")
    assert frozen.dtype == torch.bfloat16
    assert model.get_parameter("norm.weight").dtype == torch.float32
    assert parameters.state_dict()["whiten.weight"].dtype == torch.float32
    state = {name: torch.ones_like(value) for name, value in parameters.state_dict().items()}
    parameters.load_state_dict(state)
    assert frozen.eq(1).all()


def test_the_weights_are_set_from_no_more_samples_than_asked_for():
    seen = []
    workload = dataclasses.replace(
        EVERY_PART, initialise=lambda _, inputs: seen.append(inputs), initialise_samples=7
    )
    for size, expected in ((48, 7), (5, 5)):
        plan = make_plan(workload, REFERENCE, Options(devices="cpu", train_size=size))
        initialise_from_data(workload.model(), plan)
        assert seen[-1].shape == (expected, 8, 8)
        assert seen[-1].dtype == torch.float32


def test_a_parameter_takes_the_first_pattern_that_matches():
    own = ParameterGroup(optimizer=SGD(learning_rate=1.0, momentum=0.0, nesterov=False))
    recipe = dataclasses.replace(
        RECIPE, parameter_groups={"head.*": own, "*.bias": own, "conv*": own}, weight_decay={}
    )
    model = EVERY_PART.model()
    owners = tuple(recipe.parameter_groups)
    parameters = Parameters(model, weight_decay={}, owners=owners, bf16=False)
    found = {name: group.owner for group in parameters.groups for name in group.shapes}
    assert found == {
        "whiten.bias": 2,
        "conv.weight": 3,
        "norm.bias": 2,
        "conv2.weight": 3,
        "head.weight": 1,
        "head.bias": 1,
    }


def test_each_group_is_updated_at_its_own_rate():
    model = torch.nn.Linear(3, 2)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    plain = SGD(learning_rate=1.0, momentum=0.0, nesterov=False)
    recipe = Recipe(
        optimizer=plain,
        batch_size=1,
        epochs=1,
        parameter_groups={"bias": ParameterGroup(optimizer=plain, schedule=Linear(until=0.5))},
    )
    parameters = Parameters(model, weight_decay={}, owners=("bias",), bf16=False)
    optimizer = build_optimizer(recipe, parameters.groups)
    assert isinstance(optimizer, GroupedOptimizer)
    for progress, moved in ((0.25, (1.0, 0.5)), (0.75, (2.0, 0.5))):
        parameters.take_gradients([torch.ones_like(leaf) for leaf in parameters.leaves])
        optimizer.set_learning_rate(*recipe.learning_rates(progress))
        optimizer.step()
        torch.testing.assert_close(model.weight.detach(), before["weight"] - moved[0])
        torch.testing.assert_close(model.bias.detach(), before["bias"] - moved[1])


def test_a_pattern_without_a_parameter_is_refused(tmp_path):
    groups = {"cnv*": RECIPE.parameter_groups["conv*.weight"]}
    with pytest.raises(RequestError, match="parameter_groups names 'cnv\\*', which matches no par"):
        train(tmp_path, changed(parameter_groups=groups))


def test_a_group_that_is_none_is_refused():
    with pytest.raises(RequestError, match=r"parameter_groups\['\*'\] is a SGD, expected a Param"):
        dataclasses.replace(RECIPE, parameter_groups={"*": RECIPE.optimizer})


def test_parts_of_a_recipe_have_settings():
    settings = {"augment.shift": 3, "test_views.shift": 2}
    fast, _ = apply_settings(find_workload("cifar10-fast"), settings)
    assert fast.recipe.augment == CropAndFlip(shift=3)
    assert fast.recipe.test_views == MirrorAndShift(shift=2)


@pytest.mark.parametrize(
    "options", [{"learning_rate": 0.025}, {"batch_size": 12, "scale_lr": "linear"}]
)
def test_rates_of_groups_keep_their_ratio_to_the_recipes(options):
    plan = make_plan(EVERY_PART, REFERENCE, Options(devices="cpu", train_size=48, **options))
    assert plan.workload.recipe.learning_rates(0.0) == pytest.approx((0.025, 0.05, 0.1))


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [
        (
            {"optimizer": TorchOptimizer(kind=torch.optim.Muon, learning_rate=1)},
            {},
            "only supports 2D",
        ),
        ({"weight_decay": {"*.biass": 0.1}}, {}, "matches no parameter"),
        (
            {"parameter_groups": {"9.*": ParameterGroup(optimizer=SGD(0.1))}},
            {},
            "matches no parameter",
        ),
        ({}, {"activation_checkpointing": True}, "needs repeated blocks"),
        ({}, {"init_from": "other.safetensors"}, "do not fit the model"),
    ],
)
def test_the_model_refuses_a_recipe_or_an_option_before_any_choice(
    recipe, options, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    save_file({"other": torch.zeros(1)}, "other.safetensors")
    choice = "tarmac.training.planning.make.choose_devices"
    monkeypatch.setattr(choice, lambda *_, **__: pytest.fail("the devices are chosen"))
    made = find_workload("digits-mlp")
    workload = dataclasses.replace(
        made,
        recipe=dataclasses.replace(made.recipe, **recipe),
        model=lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)),
    )
    with pytest.raises(RequestError, match=message):
        make_plan(workload, "digits-mlp", Options(devices="cpu", **options))


def test_a_recipe_without_options_is_the_published_one():
    plan = make_plan(EVERY_PART, REFERENCE, Options(devices="cpu"))
    assert plan.workload.recipe == RECIPE


def test_the_record_says_what_the_recipe_asks(tmp_path):
    run = train(tmp_path, epochs=1)
    configuration = json.loads((run.path / "run.json").read_text())["configuration"]
    groups = configuration["parameter_groups"]
    assert groups["conv*.weight"]["optimizer"]["kind"] == "Muon"
    assert groups["conv*.weight"]["optimizer"]["learning_rate"] == 0.1
    assert groups["conv*.weight"]["schedule"] is None
    assert groups["*.bias"]["schedule"] == {
        "kind": "Linear",
        "start": 1.0,
        "end": 0.0,
        "until": 0.5,
    }
    assert configuration["drop_last"] is True
    assert configuration["augment"] == {"kind": "Rows"}
    assert configuration["test_views"] == {"kind": "RowViews"}
    assert configuration["initialise"] == {"kind": "initialise"}


def test_samples_that_fill_no_batch_can_be_left_out(tmp_path):
    run = train(tmp_path, epochs=1)
    assert run.history[0]["samples_per_s"] * run.history[0]["seconds"] == pytest.approx(48)
    shares = Shares(num_samples=62, batch_size=24, num_replicas=2, accumulate=1, drop_last=True)
    assert shares.num_steps == 2
    spans = [span for rank in range(2) for span in shares.micro_batches(0, rank)]
    assert sorted(i for start, stop in spans for i in range(start, stop)) == list(range(48))
    few = dataclasses.replace(shares, num_samples=20)
    assert (few.num_steps, few.global_size(0)) == (1, 20)


def test_a_prediction_is_the_weighted_sum_of_the_views():
    model = torch.nn.Linear(4, 3)
    inputs = torch.randn(5, 4)
    views = predict(model, inputs, lambda given: [(0.25, given), (0.75, given.flip(-1))])
    expected = 0.25 * model(inputs) + 0.75 * model(inputs.flip(-1))
    torch.testing.assert_close(views, expected)
    assert torch.equal(predict(model, inputs, None), model(inputs))


def test_views_change_the_score_and_not_the_training(tmp_path):
    with_views = train(tmp_path / "views", epochs=1)
    without = train(tmp_path / "none", changed(test_views=None), epochs=1)
    assert with_views.metrics["test_loss"] != without.metrics["test_loss"]
    theirs = weights_of(without)
    assert all(torch.equal(value, theirs[name]) for name, value in weights_of(with_views).items())
