"""``tarmac runs`` treats trainings, searches and jobs alike."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import tarmac
from tarmac.cli.commands.runs import command
from tarmac.errors import RequestError, TarmacError
from tarmac.jobs import Job
from tarmac.runs import Run


@pytest.fixture
def runs(tmp_path, tmp_path_factory, monkeypatch):
    """Return a function that calls ``tarmac runs`` on a job's run and a newer training."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    job = Job(name="hello", command="echo hello; echo bad >&2")
    tarmac.run(job, output=tmp_path)
    training = Run.create(
        tmp_path,
        workload="digits-mlp",
        command=[],
        configuration={"epochs": 3},
        dataset={},
        device={},
        versions={},
        seed=0,
        git=None,
        expectation=None,
    )
    training.update(status="completed", metrics={"test_accuracy": 0.9})

    def call(*words: str) -> str:
        words = (*words, "--output", str(tmp_path))
        result = CliRunner().invoke(command, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    return call


def test_runs_of_all_kinds_are_listed_and_one_kind_alone(runs):
    rows = json.loads(runs("list", "--json"))
    assert [(row["kind"], row["status"], row["workload"]) for row in rows] == [
        ("training", "completed", "digits-mlp"),
        ("job", "succeeded", None),
    ]
    assert rows[0]["metrics"] == {"test_accuracy": 0.9}
    table = runs("list")
    assert "accuracy 0.9000" in table
    assert "1 of 1 succeeded" in table
    assert [row["kind"] for row in json.loads(runs("list", "--json", "--kind", "job"))] == ["job"]


def test_latest_is_of_the_kind_that_is_asked_for(runs):
    assert "digits-mlp" in runs("show", "latest")
    assert "hello" in runs("show", "latest", "--kind", "job")
    assert json.loads(runs("show", "hello", "--json"))["tasks"][0]["exit_code"] == 0


def test_logs_of_a_jobs_tasks_are_printed_under_their_names(runs):
    printed = runs("logs", "hello")
    assert printed.endswith("stderr <==\nbad\n\n==> tasks/000000-hello/stdout <==\nhello\n")


def test_a_log_that_cannot_be_read_is_left_out_and_the_others_are_printed(runs, tmp_path):
    (err,) = tmp_path.glob("hello*/tasks/*/stderr")
    err.unlink()
    err.symlink_to(tmp_path / "elsewhere")
    printed = runs("logs", "hello")
    assert f"left out: cannot read {err}" in printed
    assert printed.endswith("==> tasks/000000-hello/stdout <==\nhello\n")


def test_a_run_without_logs_says_where_they_went(runs):
    with pytest.raises(TarmacError, match="has no logs"):
        runs("logs", "digits")


def test_runs_of_two_kinds_are_not_compared(runs):
    with pytest.raises(RequestError, match="runs of one kind can be compared"):
        runs("compare", "digits", "hello")
    assert "nothing differed" in runs("compare", "hello", "latest", "--kind", "job")


def test_a_jobs_run_is_removed(runs):
    assert "deleted" in runs("rm", "hello", "--yes")
    assert [row["kind"] for row in json.loads(runs("list", "--json"))] == ["training"]


def test_what_a_training_used_and_who_tracks_it_is_shown(runs, tmp_path):
    assert "energy" not in runs("show", "latest", "--kind", "training"), "it is not known"
    (path,) = tmp_path.glob("digits-mlp-*")
    Run.open(path).update(
        energy_joules=7200.4,
        mfu=0.3125,
        throttled_s={"power": 12.5, "thermal": 0.0},
        tracked={"mlflow": "http://127.0.0.1:5000/#/experiments/1/runs/2f"},
    )
    shown = runs("show", "latest", "--kind", "training").splitlines()
    assert "energy     7,200 J (2.00 Wh)" in shown
    assert "MFU        31.2%" in shown
    assert "throttled  12.5 s: power" in shown
    assert not [line for line in shown if "thermal" in line]
    assert "tracked    mlflow: http://127.0.0.1:5000/#/experiments/1/runs/2f" in shown
