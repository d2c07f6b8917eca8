"""PyTorch's optimizers by class and arguments, and one of a user's own."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from torch import nn

import tarmac
from tarmac import RequestError, TarmacError
from tarmac.testing.faults import failing_once
from tarmac.testing.strategies import WORKLOADS, assert_close, weights_of
from tarmac.training import apply_settings, settings_of
from tarmac.training.engine.parameters import Parameters
from tarmac.training.engine.update import build_update
from tarmac.workloads import SGD, ParameterGroup, Recipe, TorchOptimizer, Workload, find_workload

# PyTorch's own classes, but those that are refused and the base class.
KINDS = {
    name: kind
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type)
    and issubclass(kind, torch.optim.Optimizer)
    and name not in ("Optimizer", "LBFGS", "SparseAdam")
}


class Own(torch.optim.Optimizer):
    """Sign descent whose pace grows, with state of every kind."""

    def __init__(self, params, lr: float, growth: float = 1.0) -> None:
        super().__init__(params, {"lr": lr, "growth": growth, "pace": 1.0, "count": 0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["pace"] *= group["growth"]
            group["count"] += 1
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state |= {"mean": torch.zeros_like(parameter), "seen": 0, "nothing": None}
                state["seen"] += 1
                state["mean"].lerp_(parameter.grad, 0.5)
                parameter.sub_(state["mean"].sign(), alpha=group["lr"] * group["pace"])


class Moving(Own):
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            parameter.data = parameter.data - 1


class Hoarding(Own):
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["history"] = []


def changed(**parts) -> Workload:
    workload = WORKLOADS["cnn"]
    return dataclasses.replace(workload, recipe=dataclasses.replace(workload.recipe, **parts))


OWN = TorchOptimizer(kind=Own, learning_rate=1e-3, arguments={"growth": 1.1})
RADAM = TorchOptimizer(kind=torch.optim.RAdam, learning_rate=1e-2, arguments={"eps": 1e-3})
workload = changed(
    optimizer=RADAM,
    weight_decay={"*.weight": 0.01},
    parameter_groups={
        "1.weight": ParameterGroup(
            optimizer=TorchOptimizer(
                kind=torch.optim.Adamax, learning_rate=1e-3, arguments={"eps": 1e-3}
            )
        )
    },
)


def matrices(kind) -> nn.Module:
    if kind.__name__ == "Muon":
        return nn.Sequential(nn.Linear(4, 3, bias=False), nn.Linear(3, 2, bias=False))
    return nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(3, 2)).to(
        memory_format=torch.channels_last
    )


def make(spec, seed=0):
    torch.manual_seed(seed)
    model = matrices(spec.kind)
    recipe = Recipe(optimizer=spec, batch_size=1, epochs=1)
    parameters = Parameters(
        model, weight_decay={}, default_decays=recipe.default_decays, bf16=False
    )
    return model, parameters, build_update(recipe, parameters)


def step(parameters, update, number):
    generator = torch.Generator().manual_seed(number)
    parameters.take_gradients(
        [torch.randn(p.shape, generator=generator) for p in parameters.leaves]
    )
    update.set_learning_rate(0.01 / number)
    update.step()


@pytest.mark.parametrize("kind", [*KINDS.values(), Own], ids=[*KINDS, "own"])
def test_an_optimizer_does_what_its_class_does_and_goes_on_bit_for_bit(kind):
    spec = TorchOptimizer(kind=kind, learning_rate=0.01)
    model, parameters, update = make(spec)
    reference = make(spec)[0]
    theirs = kind([p.requires_grad_() for p in reference.parameters()], lr=0.01)
    for number in range(1, 4):
        generator = torch.Generator().manual_seed(number)
        for parameter in reference.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        for group in theirs.param_groups:
            group["lr"] = 0.01 / number
        theirs.step()
        step(parameters, update, number)
    for name, parameter in reference.named_parameters():
        torch.testing.assert_close(model.get_parameter(name).data, parameter.data)

    saved = {name: value.clone() for name, value in update.state().items()}
    again, restored, other = make(spec, seed=1)
    restored.load_state_dict(parameters.state_dict())
    step(restored, other, 9)
    restored.load_state_dict(parameters.state_dict())
    other.load_state(saved)
    for number in (4, 5):
        step(parameters, update, number)
        step(restored, other, number)
    for name, parameter in model.named_parameters():
        assert torch.equal(again.get_parameter(name), parameter)


def train(output, reference=f"{__file__}:workload", **options):
    asked = {"devices": "cpu", "precision": "fp64", "train_size": 62, "seed": 3}
    return tarmac.train(reference, output=output, **(asked | options))


@pytest.mark.parametrize("strategy", ["towers", "ddp"])
def test_two_devices_make_the_weights_of_one(tmp_path, strategy):
    one = weights_of(train(tmp_path / "one"))
    two = weights_of(train(tmp_path / "two", devices="cpu:2", strategy=strategy))
    assert_close(two, one, 1e-10, strategy)


@pytest.mark.parametrize("asked", [workload, changed(optimizer=OWN)], ids=["pytorchs", "own"])
def test_a_training_that_failed_goes_on_to_the_same_bits(tmp_path, asked):
    whole = train(tmp_path / "whole", asked, precision="fp32")
    with (
        failing_once(tmp_path / "failed-once", 4),
        pytest.raises(RuntimeError, match="failed on purpose"),
    ):
        train(tmp_path / "resumed", asked, precision="fp32")
    (path,) = (tmp_path / "resumed").iterdir()
    resumed = weights_of(tarmac.resume(path, workload=asked))
    assert all(torch.equal(resumed[name], value) for name, value in weights_of(whole).items())
    record = json.loads((whole.path / "run.json").read_text())["configuration"]
    assert record["optimizer"] == asked.recipe.optimizer.name


def test_arguments_are_settings():
    assert settings_of(workload)["optimizer.eps"] == 1e-3
    other, _ = apply_settings(workload, {"optimizer.eps": "0.5"})
    assert other.recipe.optimizer == dataclasses.replace(RADAM, arguments={"eps": 0.5})
    assert other.recipe.beyond_plain_steps == (
        "the optimizer torch.optim.RAdam",
        "parameter_groups",
    )
    assert OWN.name == "Own"


def test_the_decay_of_a_class_is_its_own_where_nothing_else_is_said():
    assert TorchOptimizer(kind=torch.optim.AdamW, learning_rate=1).default_decay == 0.01
    given = {"weight_decay": 0.3}
    assert (
        TorchOptimizer(kind=torch.optim.SGD, learning_rate=1, arguments=given).default_decay == 0.3
    )


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (torch.optim.LBFGS, {}, r"torch\.optim\.LBFGS needs a closure"),
        (torch.optim.SparseAdam, {}, "supports only sparse gradients"),
        (torch.optim.RAdam, {"beta": 1}, r"RAdam cannot be made with lr, beta: got an unexpected"),
        (lambda: None, {}, "expected a class such as torch.optim.RAdam"),
    ],
)
def test_a_class_that_cannot_train_is_refused(kind, arguments, message):
    with pytest.raises(RequestError, match=message):
        TorchOptimizer(kind=kind, learning_rate=1, arguments=arguments)


def test_what_a_class_says_against_the_model_is_told():
    recipe = Recipe(
        optimizer=TorchOptimizer(kind=torch.optim.Muon, learning_rate=1), batch_size=1, epochs=1
    )
    with pytest.raises(
        RequestError, match=r"torch\.optim\.Muon cannot train this model: Muon only"
    ) as raised:
        build_update(recipe, Parameters(nn.Linear(2, 2), weight_decay={}, bf16=False))
    assert str(raised.value.hint).endswith("in the recipe's parameter_groups: bias")
    recipe = dataclasses.replace(recipe, optimizer=OWN)
    decayed = Parameters(nn.Linear(2, 2), weight_decay={"*": 0.1}, bf16=False)
    with pytest.raises(
        RequestError, match=r"weight has weight decay 0\.1, which Own does not support"
    ):
        build_update(recipe, decayed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {
                "optimizer": TorchOptimizer(
                    kind=torch.optim.RAdam, learning_rate=1, arguments={"betas": (2, 3)}
                )
            },
            "Invalid beta",
        ),
        (
            {"optimizer": TorchOptimizer(kind=torch.optim.Muon, learning_rate=1)},
            "Muon only supports 2D",
        ),
        ({"weight_decay": {"*.biass": 0.1}}, r"weight_decay names '\*\.biass'"),
        ({"parameter_groups": {"9.*": ParameterGroup(optimizer=OWN)}}, "matches no parameter"),
    ],
)
@pytest.mark.parametrize("devices", ["cpu", "cpu:2"])
def test_what_a_model_refuses_is_said_before_a_run_is_made(tmp_path, changes, message, devices):
    made = find_workload("digits-mlp")
    recipe = dataclasses.replace(made.recipe, **changes)
    asked = dataclasses.replace(made, recipe=recipe, expectation=None)
    before = torch.get_rng_state()
    with pytest.raises(RequestError, match=message):
        tarmac.train(asked, output=tmp_path, devices=devices, epochs=1)
    assert not [*tmp_path.iterdir()]
    assert torch.equal(torch.get_rng_state(), before)


def test_a_class_that_moves_parameters_or_keeps_lists_is_found_out():
    _, parameters, update = make(TorchOptimizer(kind=Moving, learning_rate=1))
    with pytest.raises(TarmacError, match="Moving has replaced the tensor of"):
        step(parameters, update, 1)
    _, parameters, update = make(TorchOptimizer(kind=Hoarding, learning_rate=1))
    step(parameters, update, 1)
    with pytest.raises(
        TarmacError, match=r"keeps 'history' of .* as a list, which a checkpoint cannot hold"
    ):
        update.state()


def test_plain_optimizers_are_named_by_their_classes():
    assert SGD(learning_rate=1, momentum=0, nesterov=False).name == "SGD"
