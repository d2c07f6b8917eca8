"""libyaml's reading of a document is ruamel.yaml's, by which YAML 1.2 is read here."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tarmac.documents import parse_document, parsing
from tarmac.errors import RequestError

PARTS = [
    *("a", "b:", "k: v", "- ", "? ", ": ", ":", "{", "}", "[", "]", ",", "\n", "\n  ", "\n- "),
    *("'", '"', "#", " #", "&x ", "*x", "! ", "!!str ", "|-\n", "\n>\n", "|2\n", "|#", "?", "\t"),
    *("https://h/p?q=1", "0x1f", ".5", "1e3", "yes", "~", "\\n", "\\/", "%", "@", "`", "<<: "),
    *("---", "\n...\n", "\r\n", "é", "😀", "\x85", "\ufeff", "\ud83d", "''", "2001-02-03"),
]


def outcome(text: str, *, with_libyaml: bool):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "__with_libyaml__", with_libyaml)
        try:
            document = parse_document(text, "x")
        except RequestError as error:
            return str(error)
    # Where nothing is written, its place is where either looked for it.
    return repr(document.value), document.texts, document.dates


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML is built without libyaml")
@settings(deadline=None, max_examples=50)
@example("", ["|-\n", "---"])
@example("k: ", ["\n", "---"])
@given(st.sampled_from(["", "k: ", "- ", "{k: "]), st.lists(st.sampled_from(PARTS), max_size=9))
def test_any_text_is_read_alike(start, parts):
    text = start + "".join(parts)
    assert outcome(text, with_libyaml=True) == outcome(text, with_libyaml=False)


def test_an_anchor_hides_neither_a_numbers_text_nor_its_place():
    document = parse_document("env: {V: &v 1.10, W: *v}", "x")
    assert document.texts == {("env", "V"): "1.10", ("env", "W"): "1.10"}
    assert document.place_of(("env", "W")) == (1, 19)


@pytest.mark.parametrize("text", ["[" * 100_000, '[{"a":' * 50_000, "[[1]," * 100_000])
def test_what_is_nested_without_end_is_refused_before_it_is_read_to_the_end(text):
    with pytest.raises(RequestError, match="x: nested too deeply"):
        parse_document(text, "x")


def test_a_second_document_is_refused_with_its_place():
    with pytest.raises(RequestError, match=r"x:2:1: a second document, expected one in a file"):
        parse_document("a: 1\n---\nb: 1\n", "x")


def test_aliases_that_multiply_are_refused_before_any_value_is_made(monkeypatch):
    def build(*_):
        raise AssertionError("a value was made")

    monkeypatch.setattr(parsing._Builder, "build", build)
    lists = ["&a0 [1]", *(f"&a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))]
    text = "\n".join(f"x-{n}: {line}" for n, line in enumerate(lists))
    with pytest.raises(RequestError, match="job:7:6: more than 1,000,000 values, by aliases"):
        parse_document(text, "job")
