"""Files that are looked at again and again."""

import os

import pytest

from tarmac.files import Fields, Readings, append_lines, write_json


def collect(readings, path):
    return readings.lines(path, list, _append)


def _append(rows, row):
    rows.append(row)


def test_a_file_is_read_anew_only_where_it_changed(tmp_path):
    path, parsed, readings = tmp_path / "x", [], Readings()

    def read(content):
        parsed.append(content)
        return content.decode()

    path.write_text("a")
    assert [readings.value(path, read, "") for _ in range(3)] == ["a"] * 3
    path.write_text("bc")
    assert readings.value(path, read, "") == "bc"
    assert parsed == [b"a", b"bc"]


def test_a_file_that_was_replaced_by_one_of_the_same_size_and_time_is_another(tmp_path):
    path, readings = tmp_path / "x.json", Readings()
    write_json(path, {"a": 1})
    found = path.stat()
    assert readings.fields(path).whole("a") == 1
    write_json(path, {"a": 2})
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert readings.fields(path).whole("a") == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\x00", b"null", b"[" * 100_000])
def test_what_holds_no_object_has_no_fields(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert not Readings().fields(path)


def test_what_is_not_there_or_may_not_be_read_has_no_fields(tmp_path):
    (tmp_path / "directory").mkdir()
    assert not Readings().fields(tmp_path / "none")
    assert not Readings().fields(tmp_path / "directory")
    assert collect(Readings(), tmp_path / "none") == []
    assert collect(Readings(), tmp_path / "directory") == []


def test_of_lines_only_what_was_appended_is_read(tmp_path):
    path, readings, seen = tmp_path / "x.jsonl", Readings(), []

    def add(rows, row):
        seen.append(row)
        rows.append(row)

    append_lines(path, [1, 2])
    assert readings.lines(path, list, add) == [1, 2]
    append_lines(path, [3])
    assert readings.lines(path, list, add) == [1, 2, 3]
    assert seen == [1, 2, 3]


def test_half_a_line_is_left_for_later_and_a_damaged_one_out(tmp_path):
    path, readings = tmp_path / "x.jsonl", Readings()
    path.write_bytes(b'{"a":1}\nno json\n\xff\n{"b"')
    assert collect(readings, path) == [{"a": 1}]
    with path.open("ab") as file:
        file.write(b":2}\n")
    assert collect(readings, path) == [{"a": 1}, {"b": 2}]


def test_a_file_that_was_cut_or_replaced_is_read_from_its_beginning(tmp_path):
    path, readings = tmp_path / "x.jsonl", Readings()
    append_lines(path, [1, 2, 3])
    assert collect(readings, path) == [1, 2, 3]
    path.write_text("4\n")
    assert collect(readings, path) == [4]
    other = tmp_path / "other"
    other.write_text("5\n6\n7\n")
    other.replace(path)
    assert collect(readings, path) == [5, 6, 7]
    path.unlink()
    assert collect(readings, path) == []


def test_lines_longer_than_what_is_read_at_once_are_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("tarmac.files.readings._CHUNK_BYTES", 16)
    path = tmp_path / "x.jsonl"
    append_lines(path, ["a" * 100, "b" * 15, "c"])
    assert collect(Readings(), path) == ["a" * 100, "b" * 15, "c"]


def test_not_more_files_are_remembered_than_was_said(tmp_path):
    readings, parsed = Readings(most=2), []
    for name in "abca":
        path = tmp_path / name
        path.write_text(name)
        readings.value(path, parsed.append, None)
    assert parsed == [b"a", b"b", b"c", b"a"]


def test_fields_are_what_they_were_asked_for_or_none():
    fields = Fields.of(
        {
            "text": "x",
            "number": 1.5,
            "whole": 3,
            "true": True,
            "nan": float("nan"),
            "huge": 10**400,
            "at": "2026-11-22T12:00:00+02:00",
            "bare": "2026-11-22T12:00:00",
            "list": [{"a": 1}, 2],
        }
    )
    assert (fields.text("text"), fields.text("number"), fields.text("none")) == ("x", None, None)
    assert (fields.number("number"), fields.number("whole")) == (1.5, 3.0)
    assert [fields.number(key) for key in ("true", "nan", "huge", "text")] == [None] * 4
    assert (fields.whole("whole"), fields.whole("number")) == (3, None)
    assert str(fields.moment("at")) == "2026-11-22 10:00:00+00:00"
    assert str(fields.moment("bare")) == "2026-11-22 12:00:00+00:00"
    assert fields.moment("text") is None
    assert [inner.whole("a") for inner in fields.inners("list")] == [1, None]
    assert not fields.inner("text")
    assert fields.inners("text") == ()
    assert not Fields.of([1])


def test_whether_a_file_system_is_of_the_network_is_asked_once_for_each_device(
    tmp_path, monkeypatch
):
    asked = []

    def is_network(path):
        asked.append(path)
        return True

    monkeypatch.setattr("tarmac.files.readings.is_network", is_network)
    paths = [tmp_path / f"run-{number}" / ".lock" for number in range(9)]
    for path in paths:
        path.parent.mkdir()
    readings = Readings()
    assert all(readings.is_on_network(path) for path in paths * 2)
    assert asked == paths[:1]
    # A directory that is not there has no device, and the one above it is asked for.
    gone = tmp_path / "gone" / ".lock"
    assert readings.is_on_network(gone)
    assert asked == [paths[0], gone]
