import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import ids, read, texts

from tarmac.pages import (
    Axis,
    Bar,
    Lane,
    Mark,
    Point,
    Series,
    Span,
    bars,
    histogram,
    lanes,
    line_plot,
    matrix,
    scatter,
    sparkline,
    stacked_bars,
)
from tarmac.pages.plots import thinned

X, Y = Axis("epoch", is_whole=True), Axis("loss")
EVIL = """</title></svg><script>alert("1")</script>' onload='x"""


def plots(name=EVIL, value=1.0):
    points = [(1.0, value), (2.0, None), (3.0, 2.0)]
    line = Series(name, points)
    return {
        "line": line_plot("p", name, [line, line], x=X, y=Axis(name), marks=[Mark(2, name)]),
        "lanes": lanes(
            "p",
            name,
            [Lane(name, points, note=name), Lane(name, spans=[Span(0, 2, name, label=name[:3])])],
            x=Axis(name, "s"),
            legend=[(name, "ok")],
        ),
        "scatter": scatter(
            "p",
            name,
            [Point(1, value, name, weight=value), Point(2, 3, name)],
            x=X,
            y=Y,
            lines=[line],
            weight=Axis(name),
        ),
        "histogram": histogram("p", name, [value, 2, 3], x=Axis(name)),
        "stacked": stacked_bars(
            "p", name, [Bar(name, [value, None])], parts=[name, name], x=X, y=Y
        ),
        "bars": bars("p", name, [Bar(name, [value], name)], label=name),
        "matrix": matrix(
            "p",
            name,
            [[value, None]],
            rows=[name],
            columns=[name, name],
            row_label=name,
            column_label=name,
        ),
        "sparkline": sparkline([value, None, 2], text=name),
    }


KINDS = sorted(plots())


@pytest.mark.parametrize("kind", KINDS)
def test_a_plot_is_whole_and_shows_hostile_names_as_text(kind):
    elements = read(plots()[kind])
    assert not [element for element in elements if element.name == "script"]
    assert not [name for e in elements for name in e.attributes if name.startswith("on")]
    found = ids(elements)
    assert len(set(found)) == len(found)
    assert all(one.startswith("p") for one in found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_plot_can_be_read_aloud(kind):
    elements = read(plots("name")[kind])
    pictures = [element for element in elements if element.attributes.get("role") == "img"]
    named = ids(elements)
    for picture in pictures:
        labels = picture.attributes.get("aria-labelledby", "").split()
        assert picture.attributes.get("aria-label") or (labels and set(labels) <= set(named))
    # What has no alt text is a table itself.
    assert pictures or texts(elements, "table")
    if kind != "sparkline":
        assert texts(elements, "table"), "its data are not there as a table"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, 10**400, 0.0, -1.0, "x"])
def test_what_cannot_be_drawn_is_left_out(kind, value):
    drawn = plots("name", value)[kind]
    read(drawn)
    assert "nan" not in drawn.replace("name", "").lower()
    assert "inf" not in drawn.lower()


NUMBERS = st.one_of(st.none(), st.floats())


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(), NUMBERS), max_size=50), st.booleans())
def test_any_values_make_a_whole_plot(points, log):
    series = Series("s", points)
    read(line_plot("p", "t", [series], x=X, y=Axis("y", is_log=log)))
    read(
        lanes(
            "p",
            "t",
            [Lane("l", points), Lane("m", spans=[Span(a, a, "s") for a, _ in points])],
            x=X,
        )
    )
    read(histogram("p", "t", [value for _, value in points], x=Axis("v", is_log=log)))
    read(stacked_bars("p", "t", [Bar("b", [v]) for _, v in points], parts=["a"], x=X, y=Y))
    read(scatter("p", "t", [Point(a, b) for a, b in points], x=Axis(is_log=log), y=Y))


def test_nothing_at_all_is_drawn_as_an_empty_plot():
    assert "nothing is known" not in line_plot("p", "t", [], x=X, y=Y)
    assert "nothing is known" in line_plot("p", "t", [Series("s", [])], x=X, y=Y)
    for drawn in (
        lanes("p", "t", [], x=X),
        scatter("p", "t", [], x=X, y=Y),
        histogram("p", "t", [], x=X),
        stacked_bars("p", "t", [], parts=[], x=X, y=Y),
        bars("p", "t", []),
        matrix("p", "t", [], rows=[], columns=[]),
        sparkline([], text="t"),
    ):
        read(drawn)


def test_a_line_breaks_where_a_value_is_not_known():
    drawn = line_plot("p", "t", [Series("s", [(0, 0), (1, 1), (2, None), (3, 1)])], x=X, y=Y)
    (path,) = [e for e in read(drawn) if e.attributes.get("data-name") == "s"]
    assert path.attributes["d"].count("M") == 2


def test_a_line_plot_says_its_values_in_words_and_in_a_table():
    series = Series("loss", [(1, 0.5), (2, 0.25), (3, 0.75)])
    elements = read(line_plot("p", "Loss", [series], x=X, y=Y))
    assert texts(elements, "desc") == ["loss: from 0.5 to 0.75, lowest 0.25, highest 0.75."]
    assert texts(elements, "td") == ["1", "0.5", "2", "0.25", "3", "0.75"]


def test_a_long_line_keeps_its_peaks():
    points = [(float(place), 0.0) for place in range(100_000)]
    points[31_417] = (31_417.0, 9.0)
    points[50_000] = (50_000.0, -9.0)
    kept = thinned(points)
    assert len(kept) < 2000
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert points[31_417] in kept
    assert points[50_000] in kept


def test_a_plot_of_very_many_points_stays_small():
    points = [(float(place), math.sin(place)) for place in range(200_000)]
    assert len(line_plot("p", "t", [Series("s", points)], x=X, y=Y)) < 60_000
    many = [Bar(str(place), [1.0, 2.0]) for place in range(10_000)]
    assert len(stacked_bars("p", "t", many, parts=["a", "b"], x=X, y=Y)) < 40_000


def test_bars_of_many_epochs_are_joined_to_means():
    rows = [Bar(str(place + 1), [float(place)]) for place in range(240)]
    elements = read(stacked_bars("p", "t", rows, parts=["a"], x=X, y=Y))
    assert "1-2" in texts(elements, "text")
    assert texts(elements, "desc") == ["240 bars. a: 119.5 on average."]


def test_a_span_that_lies_outside_of_the_axis_is_cut_at_its_ends():
    rows = [Lane("a", spans=[Span(-5, 20, "long"), Span(30, 40, "later"), Span(-9, -8, "before")])]
    elements = read(lanes("p", "t", rows, x=Axis("t", "s", low=0.0, high=10.0)))
    blocks = [e.attributes for e in elements if e.name == "rect"]
    assert [(block["x"], block["width"]) for block in blocks] == [("0%", "100%")]


def test_plots_of_one_group_share_their_pointer():
    drawn = line_plot("p", "t", [Series("s", [(0, 1)])], x=X, y=Y, group="time")
    drawn += lanes("q", "t", [Lane("l", [(0, 1)])], x=X, group="time")
    groups = [e.attributes["data-group"] for e in read(drawn) if "data-group" in e.attributes]
    assert groups == ["time", "time"]


def test_lanes_of_values_and_of_spans_have_a_table_each():
    rows = [
        Lane("in use", [(0, 0.5), (5, 0.75)], unit="ratio"),
        Lane("clocks lowered", spans=[Span(2, 4, "power")]),
    ]
    elements = read(lanes("p", "GPUs", rows, x=Axis("time", "s")))
    assert texts(elements, "tr") == [
        "timein use",
        "0 s50 %",
        "5 s75 %",
        "namefromtowhat",
        "clocks lowered2 s4 spower",
    ]


def test_the_data_of_a_plot_without_a_caption_have_a_name_too():
    line = Series("loss", [(1, 2.0), (2, 1.0)])
    elements = read(line_plot("p", "", [line], x=X, y=Y))
    (group,) = [e for e in elements if e.attributes.get("role") == "group"]
    assert group.attributes["aria-label"] == "Data of epoch, loss"


def test_a_plot_has_a_legend_only_where_its_colours_stand_for_something():
    rows = [Lane("gpu 0", spans=[Span(0, 2, "busy", label="busy")])]
    elements = read(lanes("p", "t", rows, x=X, legend=[("computes", "ok"), ("waits", "bad")]))
    assert texts(elements, "li") == ["computes", "waits"]
    assert "ul" not in {element.name for element in read(lanes("p", "t", rows, x=X))}


@pytest.mark.parametrize(("is_beside", "name"), [(True, "beside"), (False, "above")])
def test_the_names_of_lanes_stand_where_they_are_wanted(is_beside, name):
    drawn = lanes("p", "t", [Lane("l", [(0, 1)])], x=X, beside=is_beside)
    (block,) = [e for e in read(drawn) if e.attributes.get("class", "").startswith("lanes ")]
    assert block.attributes["class"] == f"lanes {name}"
