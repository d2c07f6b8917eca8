"""Values of which no line is said: JSON of any size, or YAML."""

from __future__ import annotations

import pytest

from tarmac.documents import place_in, read_plain
from tarmac.errors import RequestError


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("x.json", '\ufeff[1, 2.5, null, "\\ud83d\\ude00"]', [1, 2.5, None, "\U0001f600"]),
        ("x.json", '{"a": 1, "a": 2}', {"a": 2}),
        ("x.yaml", "- a: 1\n- yes\n", [{"a": 1}, "yes"]),
        ("x", "a: b", {"a": "b"}),
    ],
)  # fmt: skip
def test_json_and_yaml_are_read(tmp_path, name, text, value):
    (tmp_path / name).write_text(text)
    assert read_plain(tmp_path / name) == value


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", b'[1,\n 2,]', r"x.json:2:4: is not JSON: "),
        ("x.json", b"", r"x.json:1:1: is not JSON: "),
        ("x.json", b"\xff", "is not UTF-8"),
        ("x.json", b'["\\ud800"]', "an unpaired surrogate"),
        ("x.json", b"[" * 100_000, "nested too deeply"),
        ("x.json", b"9" * 5000, "has 5,000 digits"),
        ("x.yaml", b"a: [", "x.yaml:1:5: "),
    ],
)  # fmt: skip
def test_what_is_neither_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestError, match=message):
        read_plain(tmp_path / name)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RequestError, match=r"gone.json: cannot be read: No such file"):
        read_plain(tmp_path / "gone.json")


def test_more_than_a_job_file_may_have_is_read_of_json(tmp_path):
    path = tmp_path / "large.json"
    path.write_text(f'["{"x" * (17 * 2**20)}"]')
    assert len(read_plain(path)[0]) == 17 * 2**20


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{input:[{size:1000,output:'/a_1',n:10}], id:'x, y:z'}",
         {"input": [{"size": 1000, "output": "/a_1", "n": 10}], "id": "x, y:z"}),
        ("{ a : 1, b: [ {c:2} ],\n d:\n  null}", {"a": 1, "b": [{"c": 2}], "d": None}),
        ('{a:"{b:1}", url:http://x/y, e:true}', {"a": "{b:1}", "url": "http://x/y", "e": True}),
        ("[{a:-1.5}, {'b':2}]", [{"a": -1.5}, {"b": 2}]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["x.json", "x.yaml"])
def test_an_object_as_javascript_has_it_is_read(tmp_path, name, text, value):
    (tmp_path / name).write_text(text)
    assert read_plain(tmp_path / name) == value


def test_a_place_is_that_of_the_file_as_it_was_written(tmp_path):
    text = "{input:[{size:1000,\n n:10}], task:'x', e:1}"
    (tmp_path / "x.json").write_text(text)
    column = text.splitlines()[1].index("task") + 1
    assert place_in(tmp_path / "x.json", ("task",)) == f"{tmp_path}/x.json:2:{column}"
