"""Searches as people type them: each form of a space, a study in a file, and going on."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from prepared import write_page

OWN_RANGES = """
from typing import Annotated, Literal

from torch import nn

from tarmac.studies import Range
from tarmac.workloads import SGD, Recipe, Workload


def model(
    dropout: Annotated[float, Range(0.0, 0.5)] = 0.2,
    activation: Literal["relu", "tanh"] = "relu",
) -> nn.Module:
    act = {"relu": nn.ReLU, "tanh": nn.Tanh}[activation]()
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), act, nn.Dropout(dropout), nn.Linear(8, 10))


sgd = SGD(learning_rate=0.1, momentum=0.0, nesterov=False)
workload = Workload(
    name="own", summary="own", dataset="digits", model=model,
    recipe=Recipe(optimizer=sgd, batch_size=64, epochs=1),
)
"""


def values_of(out: str, name: str) -> list[str]:
    """Return what a setting was in each network that a search has trained."""
    return [
        word.partition("=")[2]
        for line in out.splitlines()
        if " complete " in line
        for word in line.replace(",", " ").split()
        if word.startswith(f"{name}=")
    ]


def searched(tarmac, *words: str) -> str:
    code, out, err = tarmac("search", *words, "--epochs", "1", "--trials", "3")
    assert code == 0, out + err
    return out


# Each form by each method is in tests/studies, which starts no processes for it.
@pytest.mark.parametrize(
    ("method", "name", "values", "is_right"),
    [
        ("evolve", "hidden", "8,16,32", lambda value: int(value) in (8, 16, 32)),
        ("random", "hidden", "8..16", lambda value: 8 <= int(value) <= 16),
        ("tpe", "hidden", "8..32:8", lambda value: int(value) in range(8, 33, 8)),
        ("evolve", "hidden", "8..64:log", lambda value: 8 <= int(value) <= 64),
        ("random", "dropout", "0.1..0.4", lambda value: 0.1 <= float(value) <= 0.4),
        ("tpe", "dropout", "0..0.4:0.1", lambda value: float(value) * 10 % 1 < 1e-6),
        ("evolve", "learning_rate", "1e-4..1e-1:log", lambda value: 1e-4 <= float(value) <= 0.1),
    ],
)
def test_each_form_of_values_is_searched_over(tarmac, method, name, values, is_right):
    out = searched(tarmac, "digits-mlp", "--set", f"{name}={values}", "--method", method)
    tried = values_of(out, name)
    assert tried
    assert all(map(is_right, tried))


def test_one_value_is_fixed_and_several_are_searched_over(tarmac):
    out = searched(
        tarmac, "digits-mlp", "--set", "dropout=0.3", "--set", "hidden=8,16", "--method", "brute"
    )
    assert sorted(values_of(out, "hidden")) == ["16", "8"]
    best = json.loads(tarmac("search", "best", "latest", "--json")[1])["best"]
    assert "--set dropout=0.3" in best["command"]
    _, out, _ = tarmac(*best["command"].split()[1:], "--no-check", "--json")
    assert json.loads(out)["metrics"]["test_accuracy"] == best["test_accuracy"]


def test_a_parameter_that_depends_on_another_is_drawn_only_with_it(tarmac):
    Path("space.yaml").write_text(
        "hidden: [8, 64]\ndropout: {low: 0.1, high: 0.3, step: 0.1, when: {hidden: [64]}}\n"
    )
    out = searched(tarmac, "digits-mlp", "--space", "space.yaml", "--method", "random")
    lines = [line for line in out.splitlines() if " complete " in line]
    assert lines
    assert all(("dropout=" in line) == ("hidden=64" in line) for line in lines)


def test_a_workload_that_says_what_to_search_over_is_searched_as_it_is(tarmac):
    Path("own.py").write_text(OWN_RANGES)
    out = searched(tarmac, "own.py:workload", "--method", "random")
    dropouts, activations = values_of(out, "dropout"), values_of(out, "activation")
    assert len(dropouts) == len(activations) > 0
    assert all(0 <= float(value) <= 0.5 for value in dropouts)
    assert set(activations) <= {"relu", "tanh"}


def test_a_study_in_a_file_is_searched_and_looked_at(tarmac):
    write_page("docs/search.md", Path.cwd())
    out = searched(tarmac, "study.yaml", "--generations", "1")
    assert "train it again: tarmac train digits-mlp" in out
    assert tarmac("search", "list")[1].count("completed") == 1
    assert " complete " in tarmac("search", "show", "latest")[1]
    tarmac("search", "export", "latest", "--to", "trials.csv")
    rows = list(csv.DictReader(Path("trials.csv").read_text().splitlines()))
    assert {"hidden", "batch_size", "val_accuracy"} <= rows[0].keys()
    code, out, _ = tarmac("search", "plot", "latest", "--to", "plot.html")
    assert (code, Path("plot.html").exists()) == (0, True)
    code, out, _ = tarmac("report", "latest", "--html", "search.html")
    assert (code, "<html" in Path("search.html").read_text()) == (0, True)


def test_a_search_that_has_ended_goes_on_with_more_trials(tarmac):
    words = (
        "search",
        "digits-mlp",
        "--set",
        "hidden=8,16,32",
        "--method",
        "brute",
        "--epochs",
        "1",
    )
    assert tarmac(*words, "--trials", "1")[0] == 0
    code, out, err = tarmac("search", "--resume", "latest", "--trials", "3")
    assert code == 0, out + err
    rows = csv.DictReader(tarmac("search", "export", "latest")[1].splitlines())
    assert sorted(row["hidden"] for row in rows) == ["16", "32", "8"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("digits-mlp",), "there is nothing to search over"),
        (("digits-mlp", "--set", "hiden=8,16"), "did you mean 'hidden'?"),
        (("digits-mlp", "--set", "hidden=16..8"), "hidden"),
        (("digits-mlp", "--set", "hidden=0..8:log"), "hidden"),
        (("digits-mlp", "--set", "hidden=8,many"), "hidden"),
        (("nothing.yaml",), "nothing.yaml"),
        (("--resume", "latest"), "there is no run 'latest'"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_trained(tarmac, words, answer):
    code, out, err = tarmac("search", *words)
    assert (code, out) == (2, "")
    assert answer in err
    assert not Path("runs").exists()


def test_a_dry_run_counts_networks_and_starts_none(tarmac):
    code, out, _ = tarmac("search", "digits-mlp", "--set", "hidden=8,16,32", "--dry-run")
    assert (code, "over 3 networks" in out) == (0, True)
    assert not Path("runs").exists()
