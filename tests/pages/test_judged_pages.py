"""Pages of trainings that are judged by another metric than accuracy."""

from made_runs import make_run, write_epochs
from reading import check_page, texts

from made_regression import make_regression
from tarmac.pages import report


def tiles(elements):
    return dict(zip(texts(elements, "dt"), texts(elements, "dd"), strict=True))


def figures(elements):
    return [e.attributes["id"] for e in elements if e.name == "figure"]


def test_each_metric_has_a_curve_and_says_where_less_is_better(tmp_path):
    elements = check_page(report([make_regression(tmp_path).path]))
    assert {"curve-loss", "curve-mae", "curve-r2"} <= set(figures(elements))
    assert "curve-accuracy" not in figures(elements)
    captions = " ".join(texts(elements, "figcaption"))
    assert "Mae, smaller is better" in captions
    assert "R2, smaller" not in captions


def test_the_judged_metric_comes_first_and_says_which_end_is_better(tmp_path):
    elements = check_page(report([make_regression(tmp_path, mae=2.5).path]))
    assert tiles(elements)["test mae"] == "2.5smaller is better"


def test_a_training_at_work_shows_what_it_is_judged_by_so_far(tmp_path):
    elements = check_page(report([make_regression(tmp_path, status="interrupted").path]))
    assert tiles(elements)["validation mae"] == "3so far"


def test_what_was_expected_is_drawn_over_its_metric(tmp_path):
    expectation = {
        "metric": "test_mae",
        "at_least": None,
        "at_most": 2.75,
        "source": "a paper",
        "met": True,
        "text": "test mae 2.5, expected at most 2.75: as expected",
    }
    elements = check_page(report([make_regression(tmp_path, expectation=expectation).path]))
    assert "expected in the test: at most 2.75" in texts(elements, "body")[0]
    assert tiles(elements)["test mae"] == "2.5as expected"


def test_the_least_error_of_two_stands_out(tmp_path):
    found = [make_regression(tmp_path, name, mae=mae) for name, mae in (("a", 3.0), ("b", 2.0))]
    elements = check_page(report([run.path for run in found]))
    assert texts(elements, "b") == ["4", "2"]
    assert {"epoch-val-mae", "epoch-mae", "time-val-mae"} <= set(figures(elements))


def test_runs_of_different_metrics_stand_side_by_side(tmp_path):
    classes = make_run(tmp_path, "classes")
    write_epochs(classes)
    elements = check_page(report([make_regression(tmp_path).path, classes.path]))
    assert {"epoch-val-mae", "epoch-val-accuracy"} <= set(figures(elements))
