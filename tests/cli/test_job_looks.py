"""`tarmac ps RUN` and `tarmac logs --tail`: a look at one run."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarmac.cli.views import job_logs
from tarmac.cli.views.job_logs import Tail, failure_lines, tail_offset
from tarmac.cli.views.run_list import age_of
from tarmac.jobs import create_run, parse_job, prepare, task_directory


@pytest.fixture
def run(tmp_path):
    """Return a run of two tasks: one that has failed, and one at its end that was silent."""
    job = parse_job("{name: x, command: a, sweep: {grid: {n: [a, b]}}}")
    made = create_run(job, tmp_path, prepare(job, tmp_path), tmp_path / "runs")
    events = []
    for task, outcome in zip(made.tasks, ("failed", "succeeded"), strict=True):
        about = {"task": task.index, "name": task.name, "attempt": 1}
        ended = {"event": "ended", "outcome": outcome, "seconds": 1.5, "exit_code": 0}
        ended |= {"reason": "its program ended with exit code 3" if outcome == "failed" else ""}
        events += [{"event": "started"} | about, ended | about]
        directory = task_directory(made.path, task)
        directory.mkdir()
        (directory / "stdout").write_text("".join(f"out {n}\n" for n in range(1000)))
        (directory / "stderr").write_text("err 1\nerr 2\nerr 3")
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (made.path / "journal.jsonl").write_text(lines)
    return made


def test_ps_of_a_run_shows_its_tasks_and_why_they_failed(tarmac, run, tmp_path):
    code, out, err = tarmac("ps", "latest", "--output", str(tmp_path / "runs"))
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].startswith(f"{run.path.name}  failed")
    assert any("x[n=a]" in line and "exit code 3" in line for line in lines)
    assert any("x[n=b]" in line and "succeeded" in line for line in lines)
    row = json.loads(tarmac("ps", str(run.path), "--json")[1])
    assert [task["state"] for task in row["tasks"]] == ["failed", "succeeded"]


def test_a_run_that_a_clock_ahead_of_ours_has_made_is_not_of_the_future():
    assert age_of(datetime.now(UTC) + timedelta(hours=1)) == "0 s ago"


def test_ps_of_a_run_that_is_not_there_says_so(tarmac, run, tmp_path):
    code, _, err = tarmac("ps", "absent", "--output", str(tmp_path / "runs"))
    assert code == 2
    assert "absent" in err


def test_the_last_lines_of_each_stream_of_a_task_are_printed(tarmac, run):
    def printed(*arguments):
        code, out, err = tarmac("logs", str(run.path), *arguments)
        assert code == 0, err
        return out

    assert printed("x[n=a]", "--tail", "2") == "out 998\nout 999\nerr 2\nerr 3\n"
    assert printed("x[n=a]", "--tail", "1", "--stderr", "--follow") == "err 3\n"
    assert printed("--tail", "0") == ""
    of_both = printed("--tail", "1").splitlines()
    # A last line without an end comes once all have been read.
    assert [line.split(" | ")[1] for line in of_both] == ["out 999"] * 2 + ["err 3"] * 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet="a\n", max_size=40), count=st.integers(0, 12), block=st.integers(1, 9))
def test_the_last_lines_are_the_same_by_blocks_of_any_size(
    tmp_path, monkeypatch, text, count, block
):
    monkeypatch.setattr(job_logs, "_BLOCK_BYTES", block)
    path = tmp_path / "log"
    path.write_text(text)
    expected = text.split("\n")
    if not expected[-1]:
        expected.pop()
    shown: list[str] = []
    tail = Tail(path, shown.append, skip_bytes=tail_offset(path, count))
    tail.close()
    assert shown == (expected[-count:] if count else [])


def test_the_end_of_a_long_file_is_found_without_reading_the_rest(tmp_path, monkeypatch):
    path = tmp_path / "log"
    with path.open("wb") as file:
        # A hole: reading all of it would take minutes.
        file.truncate(2**40)
        file.seek(2**40)
        file.write(b"\none\ntwo\n")
    assert tail_offset(path, 2) == 2**40 + 1


def test_a_log_that_is_not_there_yet_is_followed_from_its_beginning(tmp_path):
    assert tail_offset(tmp_path / "absent", 3) == 0


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ("error: x is unknown\nValid:\n  a\n  b\n", ["error: x is unknown", "...", "  b"]),
        ("a\nerror: x\nValid:\n", ["a", "error: x", "Valid:"]),
        ("a\nb\nc\nd\n", ["b", "c", "d"]),
        ("error: x\na\nerror: y\nb\nc\nd\n", ["error: y", "...", "d"]),
    ],
)
def test_the_error_stands_before_the_last_lines_of_what_follows_it(tmp_path, log, shown):
    (tmp_path / "stderr").write_text(log)
    assert failure_lines(tmp_path / "stderr", 3) == shown


def test_a_pipe_in_place_of_a_log_has_no_last_lines_and_keeps_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / "stdout")
    assert tail_offset(tmp_path / "stdout", 3) == 0
