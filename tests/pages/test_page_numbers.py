import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.pages.numbers import known, worded
from tarmac.pages.scales import Axis, scale_of


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "", "0"),
        (1234567.0, "", "1,234,567"),
        (0.044683, "", "0.04468"),
        (1e-7, "", "1.000e-7"),
        (3e12, "", "3.000e12"),
        (0.9791, "ratio", "97.91 %"),
        (1.0, "ratio", "100 %"),
        (0.00000573, "ratio", "0.0006 %"),
        (0, "s", "0 s"),
        (0.3819, "s", "381.9 ms"),
        # What is left of a difference of two times.
        (0.00099992, "s", "1 ms"),
        (5.322, "s", "5.32 s"),
        (59.999, "s", "60 s"),
        (95, "s", "1 min 35 s"),
        (7200, "s", "2 h"),
        (90061, "s", "1 d 1 h"),
        (-95, "s", "-1 min 35 s"),
        (512, "bytes", "512 B"),
        (25276510208, "bytes", "23.5 GiB"),
        (350.25, "W", "350.2 W"),
        (None, "W", "-"),
        (math.nan, "s", "-"),
        (math.inf, "bytes", "-"),
        ("12", "", "-"),
        (True, "", "-"),
        (10**400, "", "-"),
    ],
)
def test_numbers_are_worded_with_their_unit(value, unit, text):
    assert worded(value, unit) == text


@given(st.one_of(st.none(), st.floats(), st.integers(), st.text(), st.booleans()))
def test_anything_is_worded(value):
    for unit in ("", "s", "ratio", "bytes", "W"):
        assert worded(value, unit)


@given(
    st.lists(st.floats(), max_size=20),
    st.sampled_from(["", "s", "ratio", "bytes"]),
    st.booleans(),
    st.booleans(),
)
def test_every_value_that_can_be_drawn_has_a_place_and_ticks_are_few(values, unit, log, whole):
    scale = scale_of(Axis("x", unit, is_log=log, is_whole=whole), values, room=0.04)
    assert scale.high > scale.low
    for value in values:
        place = scale.place(value)
        if known(value) is None or (log and known(value) <= 0):
            assert place is None
        else:
            assert -1e-6 <= place <= 1 + 1e-6
    ticks = scale.ticks()
    assert len(ticks) < 40
    assert all(-1e-6 <= tick.place <= 1 + 1e-6 for tick in ticks)


@pytest.mark.parametrize(
    ("axis", "values", "texts"),
    [
        (Axis(), [0, 10], ["0", "2", "4", "6", "8", "10"]),
        (
            Axis(unit="s"),
            [0, 3600],
            ["0 s", "10 min", "20 min", "30 min", "40 min", "50 min", "1 h"],
        ),
        (Axis(unit="s"), [0, 140], ["0 s", "30 s", "1 min", "1 min 30 s", "2 min"]),
        (Axis(unit="s"), [0, 6 * 86400], ["0 s", "1 d", "2 d", "3 d", "4 d", "5 d", "6 d"]),
        (Axis(is_log=True), [1, 1000], ["1", "10", "100", "1,000"]),
        (Axis(is_whole=True), [1, 3], ["1", "2", "3"]),
        (Axis(unit="bytes"), [0, 2**31], ["0 B", "512 MiB", "1 GiB", "1.5 GiB", "2 GiB"]),
        (Axis(), [], ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
    ],
)
def test_ticks_are_round(axis, values, texts):
    assert [tick.text for tick in scale_of(axis, values).ticks()] == texts


def test_an_axis_keeps_the_ends_that_it_is_given():
    scale = scale_of(Axis(low=0.0, high=1.0), [0.2, 0.4], room=0.1)
    assert (scale.low, scale.high) == (0.0, 1.0)


def test_one_value_alone_lies_within_its_axis():
    assert 0 < scale_of(Axis(), [5.0]).place(5.0) < 1
    assert 0 < scale_of(Axis(is_log=True), [5.0]).place(5.0) < 1
