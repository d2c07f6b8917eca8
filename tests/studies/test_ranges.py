"""How parameters are written, and what is said of those that cannot be."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import pytest
from pydantic import ValidationError

from tarmac.errors import RequestError
from tarmac.studies import Choices, Numbers, Range
from tarmac.studies.notation import ParameterText, parse_set
from tarmac.studies.tunables import make_space
from tarmac.training import settings_of
from tarmac.workloads import find_workload

DIGITS = find_workload("digits-mlp")


def space_of(*sets, workload=DIGITS):
    texts = {key: ParameterText.model_validate(value) for key, value in map(parse_set, sets)}
    return make_space(texts, workload, settings_of(workload))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hidden=16,32", Choices((16, 32))),
        ("hidden=16..128", Numbers(16, 128, None, False, True)),
        ("hidden=16..128:log", Numbers(16, 128, None, True, True)),
        ("hidden=16..128:16", Numbers(16, 128, 16, False, True)),
        ("dropout=0..0.5", Numbers(0, 0.5)),
        ("dropout=0,1e-1", Choices((0.0, 0.1))),
        ("learning_rate=1e-4..1e-1:log", Numbers(1e-4, 1e-1, None, True)),
        ("batch_size=32,64", Choices((32, 64))),
        ("optimizer.eps=1e-8,1e-7", Choices((1e-8, 1e-7))),
    ],
)
def test_set_names_choices_and_ranges_of_the_settings_own_type(text, expected):
    space, fixed = space_of(text)
    assert space.parameters == {text.partition("=")[0]: expected}
    assert fixed == {}


def test_a_single_value_fixes_a_setting():
    space, fixed = space_of("hidden=16,32", "dropout=0", "dataset=digits", "batch_size=16")
    assert fixed == {"dropout": 0.0, "dataset": "digits", "batch_size": 16}
    assert [*space.parameters] == ["hidden"]


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (["hiden=1,2"], "unknown setting of digits-mlp 'hiden', did you mean 'hidden'?"),
        (["hidden="], "hidden has no values, expected at least one"),
        (["hidden"], "--set 'hidden' is not of the form KEY=VALUES"),
        (["hidden=16,16"], "hidden has 16 twice"),
        (["hidden=16,a"], "hidden is 'a', expected a whole number (default 128)"),
        (["hidden=16..20.5"], "hidden goes from 16 to 20.5, expected whole numbers (default 128)"),
        (["dataset=digits,mnist"], "accuracies on different data do not compare"),
        (["dataset=1..3"], "accuracies on different data do not compare"),
        (["dropout=0.1"], "there is nothing to search over"),
        ([], "there is nothing to search over"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused(sets, message):
    with pytest.raises(RequestError) as caught:
        space_of(*sets)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["16", "", "32"], "has an empty value"),
        ([], "has no values"),
        ("5..1", "goes from 5 to 1, expected the lower first"),
        ("a..b", "is no range, expected LOW..HIGH"),
        ("0..1:log", "is logarithmic and begins at 0"),
        ("0..1:2", "has a step of 2"),
        ("0..inf", "goes to infinity"),
        ({"low": 1}, "has neither choices nor low and high"),
        ({"choices": [1], "low": 1, "high": 2}, "has choices and a range"),
        ({"low": 1, "high": 2, "log": True, "step": 1}, "is logarithmic and has a step"),
    ],
)
def test_values_that_make_no_sense_are_refused(value, message):
    with pytest.raises(ValidationError, match=message):
        ParameterText.model_validate(value)


def test_a_condition_takes_one_value_or_several():
    texts = {
        "hidden": ParameterText(choices=(16, 32)),
        "dropout": ParameterText.model_validate({"low": 0, "high": 1, "when": {"hidden": 32}}),
    }
    space, _ = make_space(texts, DIGITS, settings_of(DIGITS))
    assert space.parameters["dropout"].when == {"hidden": (32,)}
    assert space.is_conditional


def model(
    kind: Literal["relu", "tanh"] = "relu",
    width: Annotated[int, Range(8, 64, log=True)] = 16,
    depth: int = 2,
):
    """Build nothing: only the signature counts here."""


def test_a_workload_declares_what_is_worth_searching_over():
    declared = dataclasses.replace(DIGITS, model=model)
    space, _ = space_of(workload=declared)
    assert space.parameters == {
        "kind": Choices(("relu", "tanh")),
        "width": Numbers(8, 64, None, True, True),
    }
    space, fixed = space_of("kind=tanh", workload=declared)
    assert [*space.parameters] == ["width"]
    assert fixed == {"kind": "tanh"}
    space, _ = space_of("depth=1,2", workload=declared)
    assert [*space.parameters] == ["depth"]
