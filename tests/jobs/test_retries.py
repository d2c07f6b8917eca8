"""What follows an attempt's end, by the attempts before it."""

from __future__ import annotations

import pytest

from tarmac.jobs.history import TaskHistory
from tarmac.jobs.retries import FollowUp, follow_up


@pytest.mark.parametrize(
    ("past", "cause", "goes_on", "is_retried", "pause_s"),
    [
        ({}, None, False, False, None),
        ({}, "exit", False, False, None),
        ({"disturbances": 4}, "exit", False, True, 10.0),
        ({"spent": 2}, "exit", False, True, 40.0),
        ({"spent": 2}, "node", False, False, 30.0),
        ({"disturbances": 9}, "node", False, False, 600.0),
        # A continuation counts neither as a failure nor as a disturbance.
        ({"disturbances": 10, "spent": 3}, "timeout", True, False, 0.0),
    ],
)
def test_what_follows_depends_on_the_cause_and_on_earlier_attempts(
    past, cause, goes_on, is_retried, pause_s
):
    history = TaskHistory(**past)
    following = follow_up(
        history, cause, "so it was", goes_on=goes_on, is_retried=is_retried, backoff_s=10.0
    )
    assert following == FollowUp(pause_s, "so it was")
    assert history == TaskHistory(**past)


def test_after_ten_disturbances_the_next_one_ends_the_task():
    past = TaskHistory(disturbances=10)
    following = follow_up(past, "lost", "node n1 failed", goes_on=False, is_retried=True)
    assert following == FollowUp(None, "node n1 failed; disturbed 11 times")


@pytest.mark.parametrize(
    ("cause", "goes_on", "counts"),
    [
        ("exit", False, (1, 0)),
        (None, False, (1, 0)),
        ("node", False, (0, 1)),
        ("timeout", True, (0, 0)),
    ],
)
def test_an_attempt_counts_as_a_failure_or_a_disturbance_or_as_neither(cause, goes_on, counts):
    past = TaskHistory(last=2)
    past.count(3, cause, goes_on=goes_on)
    assert (past.spent, past.disturbances) == counts
    assert (past.last, past.settled) == (3, 3)
