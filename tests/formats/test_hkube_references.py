"""References in the input of HKube's nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.errors import RequestError
from tarmac.formats.hkube.references import (
    Reference,
    read_raw_batch,
    read_reference,
    references,
    value_at,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@a", Reference("@a", "a")),
        ("@a.b.0", Reference("@a.b.0", "a", ("b", "0"))),
        ("#@a.b", Reference("#@a.b", "a", ("b",), is_batch=True)),
        ("*@a", Reference("*@a", "a", is_each=True)),
        ("*#@a", Reference("*#@a", "a", is_batch=True, is_each=True)),
        ("@flowInput.x", Reference("@flowInput.x", "flowInput", ("x",))),
    ],
)
def test_every_form_of_a_reference_is_read(text: str, expected: Reference) -> None:
    assert read_reference(text) == expected


@pytest.mark.parametrize("text", ["", "a@b", " @a", "#a", "*", "#[1]", "#*@a", "$$a", "a"])
def test_a_text_that_is_no_reference_stays_a_text(text: str) -> None:
    assert read_reference(text) is None


def test_the_runs_input_and_data_sources_are_no_nodes() -> None:
    read = [read_reference(text) for text in ("@flowInput", "@dataSource.a/b", "@train")]
    assert [reference.node for reference in read if reference] == [None, None, "train"]


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("#[1,2]", ["1", "2"]),
        ("#[1...4]", [1, 2, 3, 4]),
        ("#[ a, -1...1 ,b ]", ["a", -1, 0, 1, "b"]),
        ("#[3...1]", []),
        ("#[]", [""]),
        ("#[a...b]", []),
        ("#[[1],[2]]", ["1", "2"]),
    ],
)
def test_a_batch_that_is_written_out_is_read(text: str, elements: list[int | str]) -> None:
    assert list(read_raw_batch(text) or ()) == elements


def test_a_text_that_is_no_batch_is_not_read_as_one() -> None:
    assert read_raw_batch("[1,2]") is None


@pytest.mark.parametrize(
    "text", ["#[1...1000001]", "#[1...900000,1...900000]", f"#[1...{'9' * 5000}]"]
)
def test_a_batch_that_would_fill_the_memory_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="more than"):
        read_raw_batch(text)


@given(st.text(alphabet="#[]@*.,-+ 0123456789a", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    read_reference(text)
    try:
        read_raw_batch(text)
    except RequestError as error:
        assert "more than" in error.message  # noqa: PT017 - most texts raise none


def test_references_are_found_at_any_depth_with_their_places() -> None:
    found = references(["@a", {"x": ["no", {"y": "#@b.c"}], "z": "*@d"}, 3, None])
    assert [(place, reference.text) for place, reference in found] == [
        ((0,), "@a"),
        ((1, "x", 1, "y"), "#@b.c"),
        ((1, "z"), "*@d"),
    ]


def test_a_path_leads_through_keys_and_numbers_of_elements() -> None:
    assert value_at({"a": [{"b": 5}]}, ("a", "0", "b")) == 5
    assert value_at(7, ()) == 7
    assert value_at({"0": 1}, ("0",)) == 1


@pytest.mark.parametrize(
    "path", [("b",), ("a", "1"), ("a", "01"), ("a", "-1"), ("a", "x"), ("c", "0")]
)
def test_a_path_that_leads_to_nothing_is_an_error(path: tuple[str, ...]) -> None:
    with pytest.raises(KeyError):
        value_at({"a": [0], "c": "text"}, path)
