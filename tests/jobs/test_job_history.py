"""What a run's next session is told of the attempts of earlier ones."""

from __future__ import annotations

import json

from tarmac.jobs.history import read_history


def history_of(tmp_path, *events: dict[str, object]):
    journal = tmp_path / "journal.jsonl"
    lines = ({"task": 0, "name": "x", "attempt": 1} | event for event in events)
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return read_history(journal).of(0)


def test_an_attempt_that_was_lost_with_its_engine_was_disturbed(tmp_path):
    past = history_of(
        tmp_path,
        {"event": "queued", "place": "6"},
        {"event": "retried", "reason": "gone", "cause": "lost"},
    )
    assert (past.disturbances, past.spent, past.settled) == (1, 0, 1)


def test_an_attempt_that_only_waited_to_be_submitted_was_not_disturbed(tmp_path):
    past = history_of(
        tmp_path,
        {"event": "waiting", "reason": "the site takes no more of your jobs for now"},
        {"event": "retried", "reason": "gone", "cause": "lost"},
    )
    assert (past.disturbances, past.spent) == (0, 0)
    # Its number is not used again all the same.
    assert (past.last, past.settled) == (1, 1)
