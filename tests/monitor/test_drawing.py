"""Numbers, columns, plots and the memory of the screen."""

import dataclasses

import pytest
from rich.cells import cell_len
from top_scenes import full_node, gpu, node, one, two_hosts

from tarmac.monitor import can_show_screen
from tarmac.monitor.drawing import (
    Look,
    Span,
    count,
    decimal,
    duration,
    gib,
    head_line,
    hosts_view,
    percent,
    trouble_lines,
    watt_hours,
    whole,
)
from tarmac.monitor.drawing.columns import Column, choose
from tarmac.monitor.drawing.gpus import slowed_by
from tarmac.monitor.drawing.lines import cut, fitted, joined, width_of
from tarmac.monitor.drawing.plots import bar, plot, resampled, sparkline
from tarmac.monitor.screen.history import History
from tarmac.monitor.screen.plotting import Series, plot_lines


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (percent, 0.984, "98%"),
        (percent, 0.0, "0%"),
        (gib, 2**30, "1.0"),
        (gib, 512 * 2**30, "512"),
        (duration, 0.2, "0s"),
        (duration, 185, "3m05s"),
        (duration, 843, "14m"),
        (duration, 7500, "2h05m"),
        (duration, 100_000, "1d03h"),
        (duration, -3, "0s"),
        (count, 452_301, "452k"),
        (count, 13.5, "13.5"),
        (count, 2.5e9, "2.5G"),
        (decimal, 0.03124, "0.0312"),
        (decimal, 1.5e-6, "1.5e-06"),
        (decimal, float("nan"), "nan"),
        (decimal, 12.3456, "12.345"),
        (watt_hours, 410_000, "114 Wh"),
        (watt_hours, 3.6e7, "10.0 kWh"),
        (whole, float("inf"), "-"),
    ],
)
def test_numbers_are_short(form, value, text):
    assert form(value) == text


@pytest.mark.parametrize("form", [percent, gib, duration, count, decimal, watt_hours, whole])
def test_what_is_not_known_is_a_dash(form):
    assert form(None) == "-"


_COLUMNS = (
    Column("a", "A", 4, 0),
    Column("b", "B", 10, 2),
    Column("c", "C", 6, 1),
    Column("d", "D", 8, 7),
    Column("who", "WHO", 9, 0, stretches=True, comfort=20),
)


@pytest.mark.parametrize(
    ("width", "keys"),
    [(14, "a who"), (21, "a c who"), (32, "a b c who"), (42, "a b c who"), (52, "a b c d who")],
)
def test_columns_of_less_interest_give_way(width, keys):
    columns = choose(_COLUMNS, width)
    assert [column.key for column in columns] == keys.split()
    assert sum(column.width for column in columns) + len(columns) - 1 == width


def test_a_column_that_is_needed_cannot_be_hidden():
    assert [c.key for c in choose(_COLUMNS, 99, {"a", "b", "who"})] == ["a", "c", "d", "who"]


def test_lines_are_cut_by_cells_and_not_by_characters():
    assert cell_len(cut("日本語日本語", 5)) <= 5
    line = (Span("ab"), Span("日本語"), Span("x"))
    assert width_of(fitted(line, 5)) <= 5
    assert fitted((Span("ab"), Span("   ")), 2) == (Span("ab"),)


def test_parts_that_do_not_fit_beside_others_are_left_out():
    parts = [(Span("aaa"),), (Span("bbbbbbbb"),), (Span("cc"),)]
    assert "".join(span.text for span in joined(parts, 8)) == "aaa  cc"


@pytest.mark.parametrize("ratio", [None, float("nan"), -1.0, 0.0, 0.31, 1.0, 7.0])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_bars_are_as_wide_as_they_are_told(ratio, ascii_only):
    assert cell_len(bar(ratio, 10, ascii_only=ascii_only)) == 10
    assert bar(ratio, 10, ascii_only=True).isascii()


def test_sparklines_end_with_the_newest_and_are_blank_where_nothing_is_known():
    assert sparkline([0.0, None, 1.0], 5) == "  ▁ █"
    assert sparkline([0.0, None, 1.0], 5, ascii_only=True) == "  _ @"


@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_plot_rises_from_its_bottom_to_its_top(ascii_only):
    lines = plot([0.0, 0.5, 1.0], 3, 3, low=0.0, high=1.0, ascii_only=ascii_only)
    assert len(lines) == 3
    assert all(len(line) == 3 for line in lines)
    assert lines[0][0] in " \u2800"
    assert lines[0][-1] != " "


def test_a_plot_of_one_value_or_of_none_is_drawn():
    assert len(plot([3.0], 4, 2, low=3.0, high=3.0)) == 2
    # Blank braille is as wide as other braille, whatever the font; a space may not be.
    assert plot([None], 4, 2, low=0.0, high=1.0) == ["\u2800" * 4] * 2


def test_a_long_series_is_thinned_to_means():
    assert resampled([1.0, 3.0, None, None], 2) == [2.0, None]


def test_history_keeps_the_newest_and_forgets_gpus_that_are_gone():
    history = History(kept=4)
    for step in range(20):
        history.add(one(node([gpu(0, util=step / 100), gpu(1)])))
    assert history.values("node-a", "GPU-0", "util") == pytest.approx([0.16, 0.17, 0.18, 0.19])
    history.add(one(node([gpu(0, util=None)])))
    assert history.newest("node-a", "GPU-0", 2) == [pytest.approx(0.19), None]
    assert history.values("node-a", "GPU-1", "util") == []
    assert history.mean("node-a", ["GPU-0", "GPU-1"], "util")[-1] is None


def test_a_gpu_held_idle_is_news_only_after_a_while():
    look = Look(120)
    assert any("held idle" in line[0].text for line in trouble_lines(full_node(), look))
    patient = dataclasses.replace(look, idle_after_s=900.0)
    assert not any("held idle" in line[0].text for line in trouble_lines(full_node(), patient))


def test_a_page_of_a_browser_is_a_screen_and_a_pipe_is_none():
    assert can_show_screen({"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver"})
    assert not can_show_screen({"TERM": "dumb"})


def test_a_plot_s_bounds_are_whole_numbers_of_its_finite_values():
    values = [3.5e-06, float("-inf"), float("nan"), 0.5, None]

    drawn = plot_lines([Series("loss", values, decimal, fills=True)], Look(60))

    text = ["".join(span.text for span in line) for line in drawn]
    assert text[1].startswith("   0.5000")
    assert text[-1].startswith("  3.5e-06")
    assert plot_lines([Series("loss", [float("nan")], decimal)], Look(60)) == []


def text_of(line):
    return "".join(span.text for span in line)


def test_the_top_line_counts_gpus_by_what_they_do():
    states = {"GPU-0": "free", "GPU-1": "held"}
    gpus = [gpu(number) for number in range(4)]
    counted = text_of(head_line(one(node(gpus, states)), Look(120)))
    assert "  2 busy, 1 held idle, 1 free  " in counted
    assert "bad" not in counted


def test_a_host_that_does_not_answer_is_marked_and_says_why():
    *alive, dead = (row.line for row in hosts_view(two_hosts(), Look(200)).rows)
    assert text_of(dead).startswith("! node-c ")
    assert " ssh: connect to host" in text_of(dead)
    # What was known of it is not as it is now.
    assert {span.tone for span in dead if span.text.strip()} == {"dim", "bad"}
    for line in alive:
        assert "!" not in text_of(line)
        assert {"strong", "busy", ""} <= {span.tone for span in line if span.text.strip()}


def test_a_host_counts_its_gpus_by_what_they_do():
    states = {"GPU-0": "held", "GPU-1": "free", "GPU-2": "bad"}
    scene = one(node([gpu(number) for number in range(5)], states))
    view = hosts_view(scene, Look(200))
    heads, values = text_of(view.heading).split(), text_of(view.rows[0].line).split()
    shown = dict(zip(heads, values, strict=False))
    assert [shown[word] for word in ("BUSY", "IDLE", "FREE", "BAD")] == ["2", "1", "1", "1"]


def test_why_clocks_are_lowered_is_said_once_for_each_reason():
    slowed = gpu(0, throttle_reasons=("sw_thermal", "hw_thermal", "sw_power_cap", "sync_boost"))
    assert slowed_by(slowed) == "heat,power,sync boost"
    assert slowed_by(gpu(0, throttle_reasons=())) == "-"
