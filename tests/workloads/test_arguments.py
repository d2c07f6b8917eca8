"""Arguments from Python: other libraries' names, mistyped ones, and values of another type."""

from __future__ import annotations

import dataclasses
import inspect
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

import tarmac
from tarmac.errors import RequestError
from tarmac.training import Options, build_model
from tarmac.training.planning.options import TrainOptions
from tarmac.workloads import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Classification,
    Cosine,
    CropAndFlip,
    Ema,
    Expectation,
    Nadam,
    ParameterGroup,
    Plateau,
    Recipe,
    RMSprop,
    Scale,
    Steps,
    Workload,
    find_workload,
)

DIGITS = find_workload("digits-mlp")

PYTORCHS = {
    SGD: torch.optim.SGD,
    Adam: torch.optim.Adam,
    AdamW: torch.optim.AdamW,
    RMSprop: torch.optim.RMSprop,
    Adadelta: torch.optim.Adadelta,
    Adagrad: torch.optim.Adagrad,
    Adamax: torch.optim.Adamax,
    Nadam: torch.optim.NAdam,
}


@pytest.mark.parametrize("ours", PYTORCHS, ids=lambda kind: kind.__name__)
def test_an_optimizer_needs_its_rate_alone_and_has_pytorchs_other_numbers(ours):
    optimizer = ours(1e-3)
    theirs = PYTORCHS[ours]([torch.zeros(1, requires_grad=True)], lr=1e-3).defaults
    renamed = {"rho": "alpha"} if ours is RMSprop else {}
    for field in dataclasses.fields(optimizer):
        value = getattr(optimizer, field.name)
        if field.name in ("beta1", "beta2"):
            assert value == theirs["betas"][field.name == "beta2"]
        elif field.name == "learning_rate":
            assert value == theirs["lr"]
        else:
            assert value == theirs[renamed.get(field.name, field.name)], field.name


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Adam(lr=1e-3), "'lr', which is learning_rate here"),
        (lambda: Adam(1e-3, betas=(0.9, 0.99)), "'betas', which is beta1 and beta2 here"),
        (lambda: Adam(1e-3, weight_decay=0.1), "'weight_decay', which is weight_decay of the"),
        (lambda: RMSprop(1e-3, alpha=0.9), "'alpha', which is rho here"),
        (lambda: SGD(1e-3, momentun=0.9), "did you mean 'momentum'?"),
        (lambda: Classification(label_smoothing=0.1), "label_smoothing of the Recipe here"),
        (lambda: Recipe(optimizer=Adam(1e-3), batch_size=1, num_epochs=1), "which is epochs here"),
        (lambda: Workload(name="a", sumary="b"), "did you mean 'summary'?"),
    ],
)
def test_an_argument_of_another_library_is_answered_with_ours(call, message):
    with pytest.raises(TypeError) as caught:
        call()
    assert message in str(caught.value)
    assert "It takes: " in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        (Expectation, "atleast", "at_least"),
        (Scale, "factr", "factor"),
        (Cosine, "warmups", "warmup"),
        (Steps, "rato", "ratio"),
        (Plateau, "patiance", "patience"),
        (Ema, "deacy", "decay"),
        (CropAndFlip, "shfit", "shift"),
        (ParameterGroup, "shedule", "schedule"),
    ],
)
def test_every_part_of_a_workload_names_the_argument_that_is_meant(kind, name, meant):
    with pytest.raises(TypeError, match=rf"no argument '{name}', did you mean '{meant}'\?"):
        kind(**{name: 1})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("optimizer", "adam", "optimizer is 'adam', expected a value such as Adam(1e-3)"),
        ("optimizer", torch.optim.Adam, "optimizer is the class Adam, expected a value such as"),
        ("schedule", "cosine", "schedule is 'cosine', expected a value such as Cosine()"),
        ("schedule", Cosine, "schedule is the class Cosine, expected a value such as Cosine()"),
        ("recipe", SGD(0.1), "recipe is SGD(learning_rate=0.1, momentum=0.0, nesterov=False), exp"),
        ("objective", "mse", "objective is 'mse', expected a value such as Regression"),
        ("model", nn.Linear(1, 1), None),
        ("model", "mlp", "model is 'mlp', expected a function that builds a module"),
    ],
)
def test_a_part_of_another_kind_is_refused_by_name(field, value, message):
    part = DIGITS.recipe if field in {"optimizer", "schedule"} else DIGITS
    if message is None:
        assert dataclasses.replace(part, **{field: value})
        return
    with pytest.raises(RequestError) as caught:
        dataclasses.replace(part, **{field: value})
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", [Adam, SGD, RMSprop])
def test_a_number_of_an_optimizer_that_is_none_is_refused_by_name(kind):
    with pytest.raises(RequestError, match="learning_rate is '1e-3', expected a number"):
        kind("1e-3")


@pytest.mark.parametrize("name", ["batch_size", "epochs", "samples_per_epoch", "cpu_batch_size"])
@pytest.mark.parametrize("value", [64.0, "64", True, 0])
def test_counts_of_a_recipe_are_whole_numbers(name, value):
    with pytest.raises(RequestError, match=f"{name} is .*, expected"):
        dataclasses.replace(DIGITS.recipe, **{name: value})
    changed = dataclasses.replace(DIGITS.recipe, **{name: np.int64(64)})
    assert type(getattr(changed, name)) is int


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": "two"}, "epochs is 'two', expected a whole number or None"),
        ({"epochs": 2.0}, "epochs is 2.0, expected a whole number or None"),
        ({"seed": True}, "seed is True, expected a whole number"),
        ({"learning_rate": "1e-3"}, "learning_rate is '1e-3', expected a number or None"),
        ({"deterministic": 1}, "deterministic is 1, expected True or False"),
        ({"precision": None}, "precision is None, expected a text"),
        ({"epoch": 2}, "unexpected option 'epoch', did you mean 'epochs'?"),
        ({"batchsize": 2}, "did you mean 'batch_size'?"),
    ],
)
def test_an_option_of_another_name_or_type_is_a_type_error(options, message):
    with pytest.raises(TypeError) as caught:
        tarmac.train("digits-mlp", **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("option", [field.name for field in dataclasses.fields(Options)])
def test_every_option_is_refused_by_name_where_its_value_has_another_type(option):
    with pytest.raises(TypeError, match=rf"^{option} is <object .*>, expected "):
        tarmac.train("digits-mlp", **{option: object()})


def test_a_text_is_no_list_of_trackers():
    with pytest.raises(TypeError, match="log_to is 'wandb', expected a list of texts"):
        tarmac.train("digits-mlp", log_to="wandb")


@pytest.mark.parametrize("workload", [object(), None, DIGITS.model])
def test_what_is_no_workload_is_a_type_error(workload):
    with pytest.raises(TypeError, match="expected a name such as"):
        tarmac.train(workload)


def test_help_and_completion_see_every_option_by_its_name():
    parameters = inspect.signature(tarmac.train).parameters
    assert {"epochs", "batch_size", "monitor", "output", "reporter"} <= parameters.keys()
    assert "options" not in parameters


def test_editors_and_type_checkers_see_every_option_of_a_training_with_its_type():
    offered = {name: hint.__forward_arg__ for name, hint in TrainOptions.__annotations__.items()}
    fields = {field.name: field.type for field in dataclasses.fields(Options)}
    assert offered == fields | {"device": fields["devices"]}


def test_rooms_are_there_without_an_import_of_their_own():
    assert tarmac.runs.resolve
    assert tarmac.data.load


class Output(OrderedDict):
    """As Hugging Face's ModelOutput: a mapping whose items are attributes too."""

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(name)


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, inputs):
        return Output(logits=self.layer(inputs.flatten(1)))


class Pretrained(Bare):
    base_model_prefix = "model"


def test_the_logits_of_a_hugging_face_model_are_taken(tmp_path):
    workload = dataclasses.replace(DIGITS, model=Pretrained)
    run = tarmac.train(workload, epochs=1, output=tmp_path, device="cpu", train_size=64)
    assert "test_accuracy" in run.metrics
    assert isinstance(build_model(workload, {}, 0)(torch.zeros(2, 64)), torch.Tensor)


@pytest.mark.parametrize(
    "layer", [nn.LazyLinear(10), nn.LazyBatchNorm1d(affine=False)], ids=["weights", "buffers"]
)
def test_layers_that_take_their_sizes_from_a_batch_are_refused_by_name(tmp_path, layer):
    def model():
        return nn.Sequential(nn.Flatten(), layer)

    workload = dataclasses.replace(DIGITS, name="lazy", model=model)
    with pytest.raises(RequestError, match=rf"lazy has a {type(layer).__name__} \(1\)"):
        tarmac.train(workload, output=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_model_around_one_is_told_to_return_its_logits(tmp_path):
    workload = dataclasses.replace(DIGITS, model=Bare)
    with pytest.raises(RequestError, match=r"return output\.logits"):
        tarmac.train(workload, epochs=1, output=tmp_path, device="cpu")
