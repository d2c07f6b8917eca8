"""Snapshots as JSON and back."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched_machine import SNAPSHOT, with_work

from tarmac.monitor import RecordingError, from_json, render_schema, to_json, to_line

jsonschema = pytest.importorskip("jsonschema")

# What anybody may write where a snapshot should be.
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_a_snapshot_comes_back_as_it_was():
    assert from_json(json.loads(to_line(SNAPSHOT))) == SNAPSHOT


def test_what_is_not_known_is_null_and_numbers_carry_their_unit():
    gpu = to_json(SNAPSHOT)["hosts"][0]["gpus"][1]
    assert gpu["power_watts"] is None
    assert gpu["utilization_ratio"] == 0.0


def test_a_loss_that_is_no_number_is_null():
    line = to_line(with_work(loss=math.nan, metric=math.inf))
    work = json.loads(line)["hosts"][0]["work"][0]
    assert (work["loss"], work["metric"]) == (None, None)


def test_every_snapshot_fits_the_schema_and_has_all_of_its_keys():
    validator = jsonschema.Draft202012Validator(render_schema())
    validator.check_schema(validator.schema)
    validator.validate(to_json(SNAPSHOT))
    for form in (validator.schema, *validator.schema["$defs"].values()):
        assert set(form["required"]) == set(form["properties"])


def test_the_schema_says_what_a_key_means():
    definitions = render_schema()["$defs"]
    assert "0 to 1" in definitions["LiveGpu"]["properties"]["utilization_ratio"]["description"]
    assert "Attributes:" not in json.dumps(definitions)


def test_keys_that_are_not_known_are_passed_over():
    value = to_json(SNAPSHOT)
    value["hosts"][0]["gpus"][0]["quantum_flux"] = 7
    assert from_json(value) == SNAPSHOT


def test_a_snapshot_of_a_newer_version_is_refused_with_what_to_do():
    with pytest.raises(RecordingError, match="schema_version 999"):
        from_json(to_json(SNAPSHOT) | {"schema_version": 999})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("hosts",), 7),
        (("hosts", 0, "gpus", 0, "index"), "seven"),
        (("hosts", 0, "gpus", 0, "index"), True),
        (("hosts", 0, "at"), "yesterday"),
        (("hosts", 0, "at"), "0001-01-01T00:00:00+23:00"),
        (("hosts", 0, "host", "load_1m"), 10**400),
        (("hosts", 0, "work", 0, "pids"), [None]),
    ],
)
def test_what_is_wrong_is_said_with_its_place(path, value):
    wrong = to_json(SNAPSHOT)
    inner = wrong
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(RecordingError, match=str(path[-1])):
        from_json(wrong)


def test_what_lacks_a_field_says_which():
    wrong = to_json(SNAPSHOT)
    del wrong["hosts"][0]["gpus"][0]["uuid"]
    with pytest.raises(RecordingError, match=r"hosts\[0\]\.gpus\[0\] lacks uuid"):
        from_json(wrong)


@given(_ANYTHING)
def test_anything_else_is_refused_and_nothing_else_happens(value):
    with pytest.raises(RecordingError):
        from_json(value)
    with pytest.raises(RecordingError):
        from_json({"schema_version": 1, "at": value, "hosts": value})


def test_the_fields_of_a_snapshot_stay_as_they_are_documented():
    documented = json.loads(
        (Path(__file__).parents[2] / "docs" / "reference" / "top.schema.json").read_text()
    )
    assert documented == render_schema(), (
        "make it again: tarmac schema top > docs/reference/top.schema.json"
    )
    names = {field.name for field in dataclasses.fields(SNAPSHOT)}
    assert set(documented["properties"]) == names
