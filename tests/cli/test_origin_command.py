"""``tarmac train`` from weights and from a checkpoint: what it says, and what it refuses."""

from __future__ import annotations

import json

import pytest

from tarmac import training
from tarmac.runs import Run


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Run:
    output = tmp_path_factory.mktemp("runs")
    return training.train("digits-mlp", epochs=1, train_size=256, output=output, device="cpu")


def test_the_command_goes_on_and_says_what_the_schedule_does(tarmac, trained, tmp_path):
    code, out, _ = tarmac(
        "train", "--from-checkpoint", str(trained.path), "--epochs", "3", "--output", str(tmp_path)
    )
    assert code == 0
    assert f"continues  from epoch 1 of {trained.path.resolve()}" in out
    assert "schedule   now over 3 epochs: the rate continues at" in out
    assert "epoch 3/3" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from-checkpoint", "{run}"], "--from-checkpoint needs --epochs"),
        (
            ["--from-checkpoint", "{run}", "--epochs", "3", "--seed", "1"],
            "--seed cannot be changed in a run that continues from a checkpoint",
        ),
        (["digits-mlp", "--init-partial"], "init_partial needs initial weights"),
        (["digits-mlp", "--init-from", "absent"], "absent"),
    ],
)
def test_a_request_that_is_wrong_is_refused(tarmac, trained, tmp_path, words, said):
    given = [word.format(run=trained.path) for word in words]
    code, _, err = tarmac("train", *given, "--output", str(tmp_path))
    assert code == 2
    assert said in err
    assert not [*tmp_path.glob("*/run.json")]


def test_the_record_names_what_was_drawn(tarmac, trained, tmp_path):
    code, out, _ = tarmac(
        *("train", "digits-mlp", "--init-from", str(trained.path), "--init-partial"),
        *("--set", "hidden=64", "--epochs", "1", "--json", "--output", str(tmp_path)),
    )
    assert code == 0
    run = Run.open(next(tmp_path.glob("*/run.json")).parent)
    assert json.loads(out)["path"] == str(run.path)
    assert run.record.configuration["init_drawn"] == [
        *("1.weight", "1.bias", "4.weight", "4.bias", "7.weight")
    ]
