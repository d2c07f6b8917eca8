"""What the command line prints of trainings that are judged by another metric than accuracy."""

import json

from click.testing import CliRunner

from made_regression import make_regression
from tarmac.cli.commands.runs import command
from tarmac.cli.training_end import conclude


def printed(*words):
    result = CliRunner().invoke(command, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_best_of_two_is_marked(tmp_path):
    for name, mae in (("first", 3.0), ("second", 2.0)):
        make_regression(tmp_path, name, mae=mae)
    words = ("compare", "first", "second", "--output", str(tmp_path))
    lines = {line.split()[0]: line.split()[1:] for line in printed(*words).splitlines() if line}
    assert lines["test_mae"] == ["3.0000", "2.0000", "*"]
    assert lines["test_r2"] == ["0.4000", "0.4000"]
    assert lines["*"] == ["the", "best", "of", "its", "row"]
    assert lines["mae"][:2] == ["by", "epoch"]
    compared = json.loads(printed(*words, "--json"))
    assert compared["judged_by"] == [{"metric": "mae", "direction": "min"}] * 2
    assert compared["by_epoch"][0] == [3.75, 3.5, 3.25, 3.0]


def test_epochs_are_shown_with_all_their_metrics(tmp_path):
    make_regression(tmp_path)
    shown = printed("show", "regression", "--output", str(tmp_path))
    first = "loss 9.0000  mae 4.0000  r2 0.1000  val_loss 10.0000  val_mae 3.7500  val_r2 0.0500"
    assert first in shown


def test_a_training_ends_with_what_it_is_judged_by(tmp_path, capsys):
    run = make_regression(tmp_path, mae=2.5)
    run.update(metrics={"test_mae": 2.5})
    conclude(run, as_json=False, verify=False)
    assert "test mae 2.5000\n" in capsys.readouterr().out
