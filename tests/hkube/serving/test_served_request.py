"""What a task asks, from whatever its input holds."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.errors import RequestError
from tarmac.hkube.serving.request import OPTIONS, Defaults, Request, read_request

DEFAULTS = Defaults(output="/training_1", values={"train_size": 1000})

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
KNOWN = st.sampled_from([*OPTIONS, "num_epochs", "output", "hidden"])


def request_of(*inputs, task_id="t"):
    return read_request({"input": [*inputs], "taskId": task_id}, DEFAULTS)


def read(data) -> Request | str:
    """Return what is asked, or why it is refused."""
    try:
        return read_request(data, DEFAULTS)
    except RequestError as error:
        return error.message


@given(PLAIN | st.fixed_dictionaries({"input": PLAIN, "taskId": PLAIN}))
def test_any_initialize_is_read_or_refused_in_words(data):
    assert read(data) != ""


@given(st.dictionaries(KNOWN, PLAIN))
def test_any_values_of_known_names_are_read_or_refused_with_the_name(asked):
    read_or_refused = read({"input": [asked], "taskId": "t"})
    if isinstance(read_or_refused, str):
        assert any(name in read_or_refused for name in asked)
    else:
        assert json.dumps(dict(read_or_refused.options), allow_nan=False)
        assert read_or_refused.output


@given(st.text())
def test_a_tasks_name_is_one_directory_of_its_output_or_refused(task_id):
    request = read({"input": [], "taskId": task_id})
    if isinstance(request, Request):
        assert request.place == f"/training_1/{task_id}"
        assert "/" not in task_id
        assert not task_id.startswith(".")


def test_what_is_not_said_is_the_defaults():
    for inputs in ([], [{}], [{"train_size": None}], [{}, "the result of another node"]):
        request = read_request({"input": inputs, "taskId": "t"}, DEFAULTS)
        assert (request.output, dict(request.options)) == ("/training_1", {"train_size": 1000})
        assert not request.settings


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"output": "a\0b"}, "output is 'a\\x00b', which is not a path: it has a zero byte"),
        ({"train_size": 1e308}, "train_size is too large"),
        ({"seed": 10**400}, "seed is too large"),
        ({"hidden": 10**400}, "hidden is too large"),
    ],
)
def test_what_no_machine_has_is_refused_in_few_words(asked, words):
    with pytest.raises(RequestError) as caught:
        read_request({"input": [asked]}, Defaults(output="/out"))
    assert words in caught.value.message
    assert len(caught.value.message) < 200


def test_tasks_without_a_name_share_nothing():
    assert request_of({}, task_id=None).task_id != request_of({}, task_id=None).task_id


@pytest.mark.parametrize("value", [400, 400.0, "400", "400.0"])
def test_numbers_may_be_what_raw_batches_and_javascript_make_of_them(value):
    assert request_of({"train_size": value}).options == {"train_size": 400}


@pytest.mark.parametrize("value", [True, 1.5, "many", "", math.nan, math.inf, "nan", [400], {}])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(RequestError, match=r"train_size is .*, expected a whole number"):
        request_of({"train_size": value})


@pytest.mark.parametrize(
    ("output", "place"),
    [
        ("/data", "/data/t"),
        ("/data/", "/data/t"),
        ("file:///data", "/data/t"),
        ("/", "/t"),
        ("data", f"{Path.cwd()}/data/t"),
        ("s3://bucket/a b", "s3://bucket/a b/t"),
        ("s3://bucket", "s3://bucket/t"),
    ],
)
def test_an_output_is_a_directory_or_one_of_a_store(output, place):
    assert request_of({"output": output}).place == place


def test_numbers_that_no_float_holds_are_exact_or_refused():
    assert request_of({"seed": "9007199254740993"}).options == {
        "train_size": 1000,
        "seed": 9007199254740993,
    }
    with pytest.raises(RequestError, match=r"learning_rate is 1000.*, expected a number"):
        request_of({"learning_rate": 10**400})
