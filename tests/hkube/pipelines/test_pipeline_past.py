"""What a run's journal says of the attempts that earlier sessions had a cluster do."""

from __future__ import annotations

import pytest

from tarmac.files import append_lines
from tarmac.hkube.clusters.previous_session import PreviousSession


def past(path, *events) -> PreviousSession:
    each = {"task": 0, "name": "a-0", "seconds": 1.0, "reason": ""}
    append_lines(path / "journal.jsonl", [each | event for event in events])
    return PreviousSession(path)


QUEUED = {"event": "queued", "attempt": 1}


def test_an_attempt_without_an_end_on_record_is_taken_up_by_the_next_session(tmp_path):
    seen = past(tmp_path, QUEUED, {"event": "started", "attempt": 1})
    assert seen.unsettled("a-0") == (tmp_path / "tasks" / "000000-a-0", 1)
    assert not seen.is_settled("a-0", 0, 1)
    assert seen.number(0) == 2


def test_a_result_that_nobody_has_taken_is_still_to_be_taken(tmp_path):
    seen = past(tmp_path, QUEUED, {"event": "ended", "attempt": 1, "outcome": "succeeded"})
    assert seen.unsettled("a-0") is not None


@pytest.mark.parametrize(
    "end",
    [
        {"outcome": "succeeded", "why": None, "input": "ab12", "result": [0, 9]},
        {"outcome": "failed", "why": "crash", "input": "ab12"},
        # By what ends attempts that nobody looks after.
        {"outcome": "interrupted"},
    ],
    ids=["result", "crash", "cancelled"],
)
def test_an_attempt_whose_end_is_on_record_is_not_waited_for_again(tmp_path, end):
    seen = past(tmp_path, QUEUED, {"event": "ended", "attempt": 1, **end})
    assert seen.is_settled("a-0", 0, 1)
    assert (seen.unsettled("a-0"), seen.spent("a-0"), seen.number(0)) == (None, 0, 2)


def test_only_failures_of_its_own_spend_an_attempt(tmp_path):
    seen = past(
        tmp_path,
        QUEUED,
        {"event": "retried", "attempt": 1, "cause": "node"},
        {"event": "queued", "attempt": 2},
        {"event": "retried", "attempt": 2},
        {"event": "queued", "attempt": 3},
    )
    assert (seen.spent("a-0"), seen.is_settled("a-0", 0, 2), seen.number(0)) == (1, True, 4)
