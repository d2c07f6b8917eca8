"""Journals stay readable whatever ends their writer: a kill, a full disk, a bad sector."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from hostile import each_name
from tarmac.files import (
    Readings,
    StorageError,
    append_lines,
    journal_text,
    parse_line,
    read_lines,
)
from waiting import wait_until


@each_name
def test_what_is_appended_is_read(tmp_path, name):
    path = tmp_path / name
    append_lines(path, [{"a": 1}, {"b": name}])
    append_lines(path, [3], is_durable=True)
    assert read_lines(path).values == ({"a": 1}, {"b": name}, 3)


@pytest.mark.parametrize("torn", [b'{"a":', b"\xff" * 200_000, b'{"a": 2}'])
def test_half_a_line_is_left_out_and_taken_away_before_the_next(tmp_path, torn):
    path = tmp_path / "journal"
    append_lines(path, [1])
    with path.open("ab") as file:
        file.write(torn)
    assert read_lines(path).values == (1,)
    append_lines(path, [2])
    assert path.read_bytes() == b"1\n2\n"


def test_a_damaged_line_is_named_and_the_others_are_read(tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(b'{"a": 1}\n{torn\n[1]\n{"a": 2}\n')
    found = read_lines(path, lambda value: None if isinstance(value, dict) else "no mapping")
    assert found.values == ({"a": 1}, {"a": 2})
    assert [line.number for line in found.damaged] == [2, 3]
    assert str(found.damaged[1]) == f"{path}:3: the journal is damaged: no mapping"


def test_a_disk_that_fills_leaves_whole_lines_and_takes_more_once_there_is_room(small_disk):
    path = small_disk("64k") / "journal"
    row = {"text": "x" * 1000}
    fill = (append_lines(path, [row]) for _ in range(1000))
    with pytest.raises(StorageError, match="no space left to write"):
        any(fill)
    kept = len(read_lines(path).values)
    assert kept > 50
    assert path.read_bytes().endswith(b"}\n")
    small_disk("128k")
    append_lines(path, [row])
    found = read_lines(path)
    assert (len(found.values), found.damaged) == (kept + 1, ())


def test_a_writer_that_is_killed_leaves_whole_lines_for_the_next(tmp_path):
    program = (
        "import pathlib, sys; from tarmac.files import append_lines\n"
        "while True: append_lines(pathlib.Path(sys.argv[1]), [{'text': 'x' * 5000}] * 9)\n"
    )
    path = tmp_path / "journal"
    with subprocess.Popen([sys.executable, "-c", program, str(path)]) as writer:
        wait_until(
            lambda: path.exists() and path.stat().st_size >= 10**6, "a MB", unless=writer.poll
        )
        writer.send_signal(signal.SIGKILL)
    append_lines(path, [{"end": True}])
    found = read_lines(path)
    assert found.values[-1] == {"end": True}
    assert not found.damaged


def _values() -> list[dict[str, object]]:
    return [
        {"event": "started", "task": 0, "name": 'a\ud800,"crc32":1}', "at": 1.5},
        {"epoch": 2, "loss": float("nan")},
        {"list": [1, {"crc": None}]},
    ]


def test_every_flipped_bit_of_a_line_damages_that_line_and_changes_no_value(tmp_path):
    path = tmp_path / "journal"
    values = _values()[::2]
    append_lines(path, values)
    content = path.read_bytes()
    taken = []
    # The last byte ends the last line: without it the line was never written.
    for place in range(8 * (len(content) - 1)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        found = read_lines(path)
        assert found.damaged
        taken += [value for value in found.values if value not in values]
    assert not taken


def test_lines_of_versions_without_checksums_are_read(tmp_path):
    path = tmp_path / "journal"
    text = "".join(json.dumps(value, separators=(",", ":")) + "\n" for value in _values())
    path.write_text(text + '{}\n{"a": 1, "crc3": 2}\n')
    found = read_lines(path)
    assert repr(found.values) == repr((*_values(), {}, {"a": 1, "crc3": 2}))
    assert not found.damaged


def test_a_version_without_checksums_may_write_the_lines_that_it_read_anew(tmp_path):
    path = tmp_path / "journal"
    append_lines(path, _values())
    text = path.read_text()
    lines = [json.dumps(json.loads(line)) + "\n" for line in text.splitlines()]
    path.write_text("".join(lines))
    assert repr(read_lines(path).values) == repr((*_values(),))
    path.write_text(journal_text(_values()))
    assert path.read_text() == text


def test_lines_that_grow_are_checked_as_those_that_are_read_whole(tmp_path):
    path = tmp_path / "journal"
    append_lines(path, [{"a": 1}, {"a": 2}])
    path.write_bytes(path.read_bytes().replace(b'"a":2', b'"a":3'))
    assert Readings().lines(path, list, lambda rows, row: rows.append(row)) == [{"a": 1}]


@pytest.mark.parametrize("end", [",", ",}", ',"crc32":', ',"crc32":1', f',"crc32":{"9" * 5000}}}'])
def test_lines_that_end_oddly_are_damaged(end):
    with pytest.raises(ValueError, match=r".+"):
        parse_line(b'{"a":1' + end.encode())
