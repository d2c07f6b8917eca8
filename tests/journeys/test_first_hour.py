"""A newcomer's first hour: train, look, change something, stop, go on, type it wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import tarmac as api

QUICK = ("train", "digits-mlp", "--epochs", "1", "--no-check", "--no-sampling")


def run_of(out: str) -> Path:
    """Return the run that the last line names."""
    return Path(out.splitlines()[-1].removeprefix("run "))


def cut_short(steps: int, **options) -> Path:
    """Train until Ctrl-C would have come after some steps."""
    left = iter(range(steps))
    run = api.train(
        "digits-mlp", sampling=False, interrupted=lambda: next(left, None) is None, **options
    )
    assert run.record.status == "interrupted"
    return run.path


def test_a_newcomer_trains_looks_at_the_run_and_scores_it(tarmac):
    code, out, _ = tarmac("train", "digits-mlp", "--epochs", "12", "--no-check", "--verify")
    run = run_of(out)
    assert code == 0
    assert "precision  " in out
    assert not (run / "check.json").exists()
    assert re.search(r"test accuracy 0\.9\d+, expected at least 0\.9\d*: as expected", out)
    code, out, _ = tarmac("runs", "list")
    assert (code, run.name in out, "completed" in out) == (0, True, True)
    code, out, _ = tarmac("runs", "show", "latest")
    assert (code, "digits-mlp" in out) == (0, True)
    code, out, _ = tarmac("report", "latest")
    assert out.splitlines()[-1] == f"report {run}/report.html"
    assert "<script src=" not in (run / "report.html").read_text()
    code, out, _ = tarmac("eval", "latest", "--json")
    assert json.loads(out)["metrics"]["test_accuracy"] == pytest.approx(
        json.loads((run / "run.json").read_text())["metrics"]["test_accuracy"]
    )


def test_a_result_below_what_is_expected_fails_only_where_it_is_verified(tarmac):
    code, out, _ = tarmac(*QUICK)
    assert (code, "below what was expected" in out) == (0, True)
    code, _, err = tarmac(*QUICK, "--verify")
    assert (code, "below what was expected" in err) == (1, True)


def test_a_setting_that_the_list_shows_changes_the_model(tarmac):
    listed = tarmac("train", "digits-mlp", "--list")[1]
    assert re.search(
        r"digits-mlp .*\n.*expected: .*\n +took: .*\n +--set hidden=128, dropout=0.1", listed
    )
    small = tarmac(*QUICK, "--set", "hidden=8")[1]
    assert "digits-mlp: 682 parameters" in small
    code, _, err = tarmac(*QUICK, "--set", "hiden=8")
    assert (code, "did you mean 'hidden'?" in err) == (2, True)
    code, _, err = tarmac(*QUICK, "--set", "hidden=many")
    assert (code, "hidden" in err, "whole number" in err) == (2, True, True)


def test_runs_with_other_recipes_are_compared_side_by_side(tarmac):
    names = [run_of(tarmac(*QUICK, "--lr", rate)[1]).name for rate in ("0.001", "0.01")]
    code, out, _ = tarmac("runs", "compare", *names)
    assert (code, "0.001" in out, "0.01" in out) == (0, True, True)
    code, out, _ = tarmac("report", *(f"runs/{name}" for name in names), "--html", "both.html")
    assert code == 0
    assert all(name in Path("both.html").read_text() for name in names)


def test_held_out_samples_are_scored_every_epoch(tarmac):
    code, out, _ = tarmac(*QUICK, "--validation-size", "200", "--epochs", "2")
    assert (code, out.count("val_accuracy 0.")) == (0, 2)
    code, _, err = tarmac(*QUICK, "--patience", "3")
    assert (code, "--validation-size" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("trian", "digits-mlp"), "unknown command 'trian', did you mean 'train'?"),
        (("train", "digit-mlp"), "unknown workload 'digit-mlp', did you mean 'digits-mlp'?"),
        (("train", "digits-mlp", "--epoch", "1"), "did you mean '--epochs'?"),
        (("train",), "no workload is named"),
        (("train", "digits-mlp", "--epochs", "0"), "epochs is 0, expected at least 1"),
        (("train", "model.py:workload"), "model.py"),
        (("train", "--resume", "latest"), "there is no run 'latest' in runs"),
        (("eval", "latest"), "there is no run 'latest' in runs"),
        (("report", "latest"), "there is no run 'latest' in runs"),
        (("data", "fetch", "mnits"), "unknown dataset 'mnits', did you mean 'mnist'?"),
    ],
)
def test_what_is_typed_wrong_is_answered_with_what_to_type(tarmac, words, answer):
    code, out, err = tarmac(*words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert answer in err
    assert not Path("runs").exists()


def test_a_training_that_was_stopped_ends_with_the_weights_of_one_that_was_not(tarmac):
    whole = api.train("digits-mlp", epochs=2, sampling=False)
    stopped = cut_short(60, epochs=2)
    assert "interrupted" in tarmac("runs", "list")[1]
    code, out, _ = tarmac("train", "--resume", "latest", "--no-check")
    assert (code, run_of(out).name) == (0, stopped.name)
    weights = load_file(stopped / "model.safetensors")
    assert all(torch.equal(weights[name], value) for name, value in load_file(whole.model).items())
    code, _, err = tarmac("train", "--resume", "latest")
    assert (code, "completed, there is nothing to resume" in err) == (2, True)


def test_python_and_the_command_line_make_the_same_run(tarmac):
    run = api.train("digits-mlp", epochs=1)
    printed = json.loads(tarmac(*QUICK, "--json")[1])
    assert printed["metrics"]["test_accuracy"] == run.metrics["test_accuracy"]


def test_data_are_fetched_once_verified_and_listed(tarmac):
    assert "absent" in tarmac("data", "list")[1]
    code, _, _ = tarmac("data", "fetch", "mnist")
    assert code == 0
    assert tarmac("data", "verify", "mnist")[0] == 0
    file = next(Path("../data/mnist").glob("train-images*"))
    file.write_bytes(file.read_bytes()[:-1])
    code, out, err = tarmac("data", "verify", "mnist")
    assert (code, file.name in out + err) == (1, True)
    assert tarmac("data", "fetch", "mnist")[0] == 0
    assert tarmac("data", "verify", "mnist")[0] == 0


def test_a_run_is_removed_only_where_somebody_says_yes(tarmac):
    run = run_of(tarmac(*QUICK)[1])
    code, _, err = tarmac("runs", "rm", "latest")
    assert (code, "Add --yes" in err, run.exists()) == (2, True, True)
    assert tarmac("runs", "rm", "latest", "--yes")[0] == 0
    assert not run.exists()


def test_a_disk_that_is_full_fails_the_training_and_says_what_could_not_be_written(
    tarmac, small_disk
):
    disk = small_disk("64k")
    code, _, err = tarmac(*QUICK, "--output", str(disk))
    assert code == 1
    assert err.startswith(f"error: no space left to write {disk}")
    assert "Free some, or name another place to write to" in err


def test_completions_are_printed_for_a_shell_that_is_known(tarmac):
    assert "_TARMAC_COMPLETE" in tarmac("completion", "bash")[1]
    code, _, err = tarmac("completion", "basch")
    assert (code, "bash" in err) == (2, True)
