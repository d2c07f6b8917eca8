"""When a training ends because its validation gets no better."""

import math

import pytest

from tarmac.runs import JudgedBy
from tarmac.training.session.patience import Patience, patience_of


def over_after(patience, rows):
    """Return after how many epochs patience is over; None for never."""
    for number, row in enumerate(rows, start=1):
        patience.see_epoch(row)
        if patience.is_over:
            return number
    return None


def rows(name, *values):
    return [{"loss": 0.0, name: value} for value in values]


def test_where_accuracy_counts_it_is_watched():
    patience = patience_of(2, JudgedBy())
    assert over_after(patience, rows("val_accuracy", 0.3, 0.5, 0.4, 0.5)) == 4
    assert patience.why_over == "val_accuracy has not risen for 2 epochs"


def test_a_run_of_an_earlier_version_goes_on_to_watch_the_loss():
    patience = patience_of(2, JudgedBy(), "loss")
    assert over_after(patience, rows("val_loss", 3.0, 2.0, 2.5, 2.0)) == 4
    assert patience.why_over == "val_loss has not fallen for 2 epochs"


@pytest.mark.parametrize(
    ("direction", "values", "words"),
    [("min", (3.0, 2.0, 2.5), "fallen"), ("max", (1.0, 2.0, 1.5), "risen")],
)
def test_another_metric_is_watched_in_its_own_direction(direction, values, words):
    patience = patience_of(1, JudgedBy("score", direction, among=("score",)))
    assert over_after(patience, rows("val_score", *values)) == 3
    assert patience.why_over == f"val_score has not {words} for 1 epoch"


def test_what_is_no_number_is_never_better():
    assert over_after(Patience(2), rows("val_loss", math.nan, math.nan)) == 2
    assert over_after(Patience(2), rows("val_loss", 1.0, math.nan, 0.5, math.nan, 0.4)) is None


def test_an_epoch_without_validation_does_not_count():
    assert over_after(Patience(1), [{"loss": 1.0}] * 5) is None
