"""What a pipeline's next session takes from the journal of the ones before."""

from __future__ import annotations

import pytest

from tarmac.hkube.clusters import previous_session as module
from tarmac.hkube.clusters.previous_session import PreviousSession


@pytest.fixture
def past_of(tmp_path, monkeypatch):
    """Return a function that gives the past of a run whose journal has some events."""

    def make(*events) -> PreviousSession:
        (tmp_path / "journal.jsonl").touch()
        monkeypatch.setattr(module, "read_journal", lambda _: [dict(event) for event in events])
        return PreviousSession(tmp_path)

    return make


def event(kind: str, attempt: int, task: int = 4, **more):
    return {"event": kind, "name": "double", "task": task, "attempt": attempt, **more}


def test_a_run_without_a_journal_has_no_past(tmp_path):
    past = PreviousSession(tmp_path)
    assert [past.number(4), past.number(4), past.number(5)] == [1, 2, 1]
    assert (past.unsettled("double"), past.spent("double")) == (None, 0)
    assert not past.is_settled("double", 4, 1)


def test_an_attempt_without_an_end_is_gone_on_with_in_its_directory(past_of, tmp_path):
    past = past_of(event("began", 1), event("retried", 1), event("began", 2))
    directory, number = past.unsettled("double")
    assert (directory.parent, directory.name, number) == (tmp_path / "tasks", "000004-double", 2)
    assert past.is_settled("double", 4, 1)
    assert not past.is_settled("double", 4, 2)
    # Another task of that name has no attempts.
    assert not past.is_settled("double", 5, 1)
    assert past.number(4) == 3


def test_a_failure_of_its_own_spends_a_retry_and_a_disturbance_does_not(past_of):
    past = past_of(event("retried", 1), event("retried", 2, cause="node"), event("began", 3))
    assert past.spent("double") == 1
    past.has_had(4, 7)
    past.has_had(4, 5)
    assert past.number(4) == 8


@pytest.mark.parametrize(
    ("more", "is_settled"),
    [
        ({"outcome": "failed"}, True),
        ({"outcome": "succeeded"}, False),
        ({"outcome": "succeeded", "why": "orphan"}, True),
    ],
)
def test_an_end_settles_an_attempt_unless_its_result_is_still_to_be_taken(
    past_of, more, is_settled
):
    past = past_of(event("retried", 1), event("began", 2), event("ended", 2, **more))
    assert past.is_settled("double", 4, 2) is is_settled
    assert (past.unsettled("double") is None) is is_settled
    assert past.spent("double") == (0 if is_settled else 1)


def test_events_of_no_task_and_of_a_former_plan_do_not_count(past_of):
    former = event("retried", 3, task=2)
    past = past_of(former, {"event": "warned", "task": 4}, event("began", 1))
    assert past.unsettled("double")[1] == 1
    assert past.spent("double") == 0
    assert past.number(2) == 4
