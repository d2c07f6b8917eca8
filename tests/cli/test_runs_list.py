"""``tarmac runs list``: which runs, in which order, within the width of a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tarmac.cli.views.run_list import _lines, chosen
from tarmac.errors import RequestError
from tarmac.jobs import Job
from tarmac.runs import RunSummary

NOW = datetime.now(UTC)
RUNS = [
    RunSummary("training", Path("c"), "completed", NOW, 9.0, "mlp", "", {"test_loss": 0.3}),
    RunSummary("job", Path("b"), "failed", NOW - timedelta(hours=1)),
    RunSummary("training", Path("a"), "failed", NOW - timedelta(days=1), 99.0, "cnn", "", {}),
    RunSummary("training", Path("0"), "completed", NOW, 1.0, "mlp", "", {"test_loss": 0.5}),
]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, "cba0"),
        ({"limit": 2}, "cb"),
        ({"states": ["failed"]}, "ba"),
        ({"workload": "mlp"}, "c0"),
        ({"key": "took"}, "ac0b"),
        ({"key": "-took", "limit": 2}, "0c"),
        ({"key": "-began", "limit": 1}, "a"),
        ({"key": "test_loss"}, "0cba"),
        ({"key": "-test_loss", "workload": "mlp"}, "c0"),
    ],
)
def test_runs_are_chosen_and_sorted(options, names):
    assert "".join(run.name for run in chosen(RUNS, **options)) == names


@pytest.mark.parametrize("key", ["test_loss", "-test_loss"])
def test_trainings_that_diverged_come_behind_all_that_have_the_number(key):
    losses = [0.3, float("nan"), 0.1, float("nan"), 0.2]
    runs = [
        RunSummary("training", Path(str(n)), "failed", NOW, metrics={"test_loss": loss})
        for n, loss in enumerate(losses)
    ]
    names = [run.name for run in chosen(runs, key=key)]
    assert names == [*(["0", "4", "2"][:: -1 if key.startswith("-") else 1]), "1", "3"]


def test_a_key_that_no_run_has_names_those_that_there_are():
    with pytest.raises(RequestError, match="unknown key to sort by 'loss', did you mean 'test_l"):
        chosen(RUNS, key="loss")
    with pytest.raises(RequestError, match="--limit is 0, expected at least 1"):
        chosen(RUNS, limit=0)
    assert chosen([], key="loss") == []


def test_a_narrow_terminal_gets_a_line_for_each_run_without_what_tells_least():
    head = ("run", "kind", "status", "began", "took", "result")
    row = ("mnist-mlp-20261126-094502-f4b1", "training", "completed", "3 h ago", "12.0 s", "x" * 30)
    assert _lines([head, row], None)[1].endswith("x" * 30)
    lines = _lines([head, row], 80)
    assert all(len(line) <= 80 for line in lines)
    assert "kind" not in lines[0]
    assert "completed" in lines[1]
    assert _lines([head, row], 40)[1].endswith("…")


def test_a_jobs_run_says_how_long_it_took(tarmac, tmp_path):
    import json

    import tarmac as package

    package.run(Job(name="x", command=("true",)), output=tmp_path / "runs")
    code, out, _ = tarmac("runs", "list", "--json", "--limit", "1")
    assert code == 0
    assert json.loads(out)[0]["elapsed_s"] >= 0
