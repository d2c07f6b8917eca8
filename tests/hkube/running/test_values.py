"""Values come back exactly from where they are stored, and are said as JSON."""

from __future__ import annotations

import contextlib
import json
import math
import tracemalloc

import pytest
from bson import json_util
from hypothesis import example, given
from hypothesis import strategies as st

from tarmac.errors import TarmacError
from tarmac.hkube import to_json, write_json
from tarmac.hkube.running import results as results_file
from tarmac.hkube.running.results import Results
from tarmac.hkube.values import digest_of, pack, unpack

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None))
    | st.binary()
)
VALUES = st.recursive(
    _LEAVES, lambda part: st.lists(part) | st.dictionaries(st.text(), part), max_leaves=20
)


@given(VALUES)
def test_every_plain_value_comes_back_the_same(value):
    assert repr(unpack(pack(value))) == repr(value)
    assert digest_of(value) == digest_of(unpack(pack(value)))


@given(st.binary())
@example(b"\x81\x90\x00")
def test_bytes_that_are_no_value_are_damage_and_nothing_else(data):
    with contextlib.suppress(TarmacError):
        unpack(data)


@given(VALUES)
def test_any_value_is_json_that_says_it(value):
    assert json.loads(to_json(value), parse_constant=pytest.fail) is not NotImplemented


def test_what_json_has_no_form_for_is_in_mongodbs():
    value = [b"\x00\xff", math.nan, math.inf, -math.inf, 1.5]
    read = json_util.loads(to_json(value))
    assert (read[0], read[2:]) == (b"\x00\xff", value[2:])
    assert math.isnan(read[1])


def test_numbers_that_json_cannot_say_may_lie_as_deep_as_a_result_that_is_kept():
    value = math.inf
    for _ in range(500):
        value = [value]
    pack(value)
    assert to_json(value, indent=2).count('"$numberDouble": "Infinity"') == 1


def test_a_large_result_is_written_without_all_of_its_text_in_memory(tmp_path):
    rows = [{"nodeName": "a", "batchIndex": index, "result": index} for index in range(20_000)]
    rows.append({"nodeName": "a", "result": math.nan})
    tracemalloc.start()
    try:
        write_json(tmp_path / "few.json", rows[:-1])
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 500_000 < (tmp_path / "few.json").stat().st_size
    assert json.loads((tmp_path / "few.json").read_text()) == rows[:-1]
    write_json(tmp_path / "all.json", rows)
    assert (tmp_path / "all.json").read_text() == to_json(rows, indent=2) + "\n"


def test_results_stand_one_after_another_and_one_that_was_not_ended_is_passed_over(
    tmp_path, monkeypatch
):
    path = tmp_path / "results.msgpack"
    results = Results(path)
    first = results.append({"a": [1, b"x"]})
    with path.open("ab") as file:
        file.write(b"torn")
    second = results.append("ä")
    results.close()
    again = Results(path)
    assert (again.read(first), again.read(second)) == ({"a": [1, b"x"]}, "ä")
    with pytest.raises(TarmacError, match=r"results\.msgpack is damaged: it ends before byte"):
        again.read((second[0], 100))
    # What is larger than the kernel reads at once comes in parts.
    monkeypatch.setattr(results_file, "_MAX_AT_ONCE", 3)
    assert again.read(first) == {"a": [1, b"x"]}
    with pytest.raises(TarmacError, match=r"results\.msgpack: "):
        again.read((first[0], first[1] - 1))
    again.close()


def test_a_result_that_is_read_in_parts_is_whole_and_one_that_is_damaged_says_where(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("tarmac.hkube.running.results._MAX_AT_ONCE", 7)
    path = tmp_path / "results.msgpack"
    results = Results(path)
    value = {"text": "x" * 100}
    place = results.append(value)
    assert results.read(place) == value
    with path.open("r+b") as file:
        file.write(b"\xc1")
    with pytest.raises(TarmacError, match=r"^/.*results\.msgpack: "):
        results.read(place)
    results.close()
