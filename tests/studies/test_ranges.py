"""How parameters are written, and what is said of those that cannot be."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Literal, Optional

import pytest
from pydantic import ValidationError
from torch import nn

from tarmac.errors import RequestError
from tarmac.studies import Choices, Numbers, Range
from tarmac.studies.notation import ParameterText, parse_set
from tarmac.studies.space import Space
from tarmac.studies.tunables import make_space
from tarmac.training import apply_settings, settings_of
from tarmac.workloads import find_workload

DIGITS = find_workload("digits-mlp")


def space_of(*sets, workload=DIGITS):
    texts = {key: ParameterText.model_validate(value) for key, value in map(parse_set, sets)}
    return make_space(texts, workload, settings_of(workload))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hidden=16,32", Choices((16, 32))),
        ("hidden=[16, 32]", Choices((16, 32))),
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
        (["learning_rate=nan,0.1"], "learning_rate is nan, expected a finite number"),
        (["learning_rate=inf"], "learning_rate is inf, expected a finite number"),
        (["dropout=-inf,0.1"], "dropout is -inf, expected a finite number"),
        (["hidden=8,1" + 20 * "0"], "expected an int64: at most 9223372036854775807"),
        (["hidden=1..9007199254740999"], "hidden goes to 9007199254740999, expected"),
        (["hidden=none,16"], "hidden is 'none', expected a whole number (default 128)"),
        (["hidden=16..20.5"], "hidden goes from 16 to 20.5, expected whole numbers (default 128)"),
        (["dataset=digits,mnist"], "accuracies on different data cannot be compared"),
        (["dataset=1..3"], "accuracies on different data cannot be compared"),
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
        ("nan..1", "has a bound that is not a number: nan"),
        ({"low": 0.0, "high": float("nan")}, "has a bound that is not a number: nan"),
        ("16...20", "is no range, expected LOW..HIGH"),
        ("0...5", "with two dots"),
        ("-1e308..1e308", "is too wide to count"),
        ("0..1e300:1e-300", "has a step of 1e-300, which is too small to count"),
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


def optional_model(
    width: int | None = None,
    *,
    dropout: float | None = None,
    activation: Literal["relu", "tanh"] | None = None,
    is_wide: Optional[bool] = None,  # noqa: UP045 - as many write it
    depth: int | None = 2,
    bare=None,
) -> nn.Module:
    raise NotImplementedError("its signature alone is read")


OPTIONAL = dataclasses.replace(DIGITS, model=optional_model)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("width=none,16", (None, 16)),
        ("dropout=None,0.1", (None, 0.1)),
        ("activation=null,tanh", (None, "tanh")),
        ("is_wide=none,true", (None, True)),
        ("depth=2,none", (2, None)),
        ("width=8..16", None),
    ],
)
def test_a_setting_that_may_be_none_takes_none_and_its_type(text, values):
    name = text.partition("=")[0]
    space, _ = space_of(text, workload=OPTIONAL)
    parameter = space.parameters[name]
    if values is None:
        assert parameter == Numbers(8, 16, None, False, True)
        return
    assert parameter == Choices(values)
    assert Space.from_record(json.loads(json.dumps(space.to_record()))).parameters == {
        name: parameter
    }


def test_none_in_a_file_is_a_value_and_fixes_a_setting():
    text = ParameterText.model_validate(None)
    space, fixed = make_space(
        {"dropout": text, "width": ParameterText.model_validate([None, 4])},
        OPTIONAL,
        settings_of(OPTIONAL),
    )
    assert fixed == {"dropout": None}
    assert space.parameters == {"width": Choices((None, 4))}


def test_a_setting_of_none_without_a_type_says_why_it_is_left_out():
    with pytest.raises(RequestError, match="bare of digits-mlp cannot be set") as caught:
        space_of("bare=1,2", workload=OPTIONAL)
    assert "bare: float | None = None" in str(caught.value)


def test_a_training_takes_none_by_its_name():
    changed = {"width": "none", "dropout": "0.5", "depth": "none", "activation": "relu"}
    _, arguments = apply_settings(OPTIONAL, changed)
    assert arguments == {"dropout": 0.5, "depth": None, "activation": "relu"}
    with pytest.raises(RequestError, match="dropout is 'x', expected a number, or none"):
        apply_settings(OPTIONAL, {"dropout": "x"})


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", float("nan")])
def test_a_training_refuses_numbers_that_are_not_finite(value):
    with pytest.raises(RequestError, match="expected a finite number"):
        apply_settings(DIGITS, {"dropout": value})


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, str(10**400), "1" + 30 * "0"])
def test_a_training_refuses_whole_numbers_beyond_int64_in_a_line(value):
    with pytest.raises(RequestError, match="expected an int64") as caught:
        apply_settings(DIGITS, {"hidden": value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sets", "count"),
    [
        (["hidden=1..9007199254740992"], 2**53),
        (["hidden=1..9007199254740992", "batch_size=1..9007199254740991"], 2**53 * (2**53 - 1)),
        (["hidden=1..9007199254740991:2"], 2**52),
        (["hidden=1..9007199254740992", "dropout=0..1"], None),
    ],
)
def test_large_spaces_are_counted_exactly(sets, count):
    space, _ = space_of(*sets)
    assert space.size == count


def test_a_condition_on_a_large_range_is_counted_without_a_walk():
    space = Space(
        {
            "hidden": Numbers(1, 2**53, whole=True),
            "extra": Choices((1, 2, 3), when={"hidden": (7, 9)}),
        }
    )
    assert space.size == 2**53 + 2 * 2
