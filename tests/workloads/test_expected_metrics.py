"""What a workload is expected to reach, of any metric."""

import math

import pytest

from tarmac.errors import RequestError
from tarmac.runs import JudgedBy
from tarmac.workloads import Expectation

pytest.importorskip("torch", reason="needs pip install 'tarmac-gpu[train]'")

ERROR = JudgedBy("mae", "min", among=("mae", "r2"))


@pytest.mark.parametrize(
    ("expectation", "metric"),
    [
        (Expectation(at_most=3.0), "test_mae"),
        (Expectation(at_least=0.4, metric="r2"), "test_r2"),
        (Expectation(at_most=9.0, metric="val_loss"), "val_loss"),
        (Expectation(at_most=9.0, metric="train_mae"), "train_mae"),
    ],
)
def test_an_expectation_is_about_a_final_metric(expectation, metric):
    assert expectation.metric_of(ERROR) == metric


def test_an_expectation_of_what_is_not_scored_is_refused():
    with pytest.raises(RequestError, match=r"unknown metric .* 'mea', did you mean 'mae'"):
        Expectation(at_most=3.0, metric="val_mea").metric_of(ERROR)


def test_an_expectation_without_a_bound_is_refused():
    with pytest.raises(RequestError, match="has no bound"):
        Expectation(metric="loss")


@pytest.mark.parametrize(
    ("expectation", "value", "met", "words"),
    [
        (Expectation(at_most=3.0), 2.5, True, "test mae 2.5000, expected at most 3: as expected"),
        (Expectation(at_most=3.0), 3.5, False, "above what was expected"),
        (Expectation(at_least=2.0, at_most=3.0), 1.0, False, "expected 2 to 3: below"),
        (Expectation(at_most=3.0), math.nan, False, "no number"),
    ],
)
def test_a_verdict_names_the_metric(expectation, value, met, words):
    verdict = expectation.judge(value, "test_mae")
    assert verdict.met is met
    assert words in verdict.text
