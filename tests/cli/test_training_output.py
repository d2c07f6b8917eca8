"""What a training prints: lines that fit the terminal, and notes on what cannot go well."""

from __future__ import annotations

import json

import pytest

from tarmac.cli.views import training as view
from tarmac.training import ONE_OF_SEVERAL


@pytest.mark.parametrize("width", [60, 80, 90, 140])
def test_epoch_lines_fit_the_terminal_and_leave_rates_out_first(tarmac, monkeypatch, width):
    make = view.make_console

    def narrow():
        console = make()
        console.width = width
        return console

    monkeypatch.setattr(view, "make_console", narrow)
    _, out, _ = tarmac("train", "digits-mlp", "--epochs", "1", "--validation-size", "200")
    (line,) = [line for line in out.splitlines() if line.startswith("epoch")]
    assert "val_accuracy" in line
    assert width < 80 or len(line) <= width
    # Also the slowest machine's rate takes more than 90 columns, and no rate takes more than 140.
    assert ("samples/s" in line) == (width == 140)


def test_a_batch_above_the_data_and_a_loss_no_better_than_guessing_are_noted(tarmac):
    code, out, _ = tarmac(
        *("train", "digits-mlp", "--epochs", "1", "--batch-size", "100000", "--lr", "1000")
    )
    assert code == 0
    assert "a batch of 100,000 is more than the 1,438 samples: each epoch is one step" in out
    assert "is no better than guessing among 10 classes, 2.3026" in out


@pytest.mark.parametrize(("rate", "is_noted"), [("1e-9", True), ("1e-2", False)])
def test_a_regression_whose_loss_hardly_falls_is_noted(tarmac, rate, is_noted):
    code, out, _ = tarmac(
        "train", "diabetes-mlp", "--epochs", "3", "--lr", rate, "--set", "dropout=0"
    )
    assert code == 0
    assert ("% in 3 epochs: try another --lr" in out) == is_noted


@pytest.mark.parametrize(("last", "is_noted"), [("Softmax(1)", True), ("LogSoftmax(1)", False)])
def test_a_model_that_ends_in_softmax_is_noted(tarmac, tmp_path, last, is_noted):
    (tmp_path / "mine.py").write_text(
        "import dataclasses\n"
        "from torch import nn\n"
        "from tarmac.workloads.digits_mlp import workload as known\n"
        "def model():\n"
        f"    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.{last})\n"
        "workload = dataclasses.replace(known, model=model)\n"
    )
    code, out, _ = tarmac("train", "mine.py:workload", "--epochs", "1")
    assert code == 0
    assert ("the model returns probabilities" in out) == is_noted


_ENDS = """
import dataclasses, sys
from torch import nn
from tarmac.workloads.digits_mlp import workload as known
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(64, 10)
    def forward(self, images):
        {inside}
        return self.last(images)
workload = dataclasses.replace(known, model=Model)
{after}
"""


@pytest.mark.parametrize("code", ["0", "3", ""])
@pytest.mark.parametrize("place", ["inside", "after"])
@pytest.mark.parametrize("option", ["--epochs=1", "--summary"])
def test_a_workload_that_ends_the_program_is_no_success(tarmac, tmp_path, code, place, option):
    lines = {"inside": "", "after": "", place: f"sys.exit({code})"}
    (tmp_path / "mine.py").write_text(_ENDS.format(**lines))
    code, out, err = tarmac("train", "mine.py:workload", option)
    assert code == 1
    assert "mine.py" in out + err
    assert "ended the program with SystemExit(" in err


def test_names_of_layers_cannot_steer_a_terminal(tarmac, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import dataclasses\n"
        "from torch import nn\n"
        "from tarmac.workloads.digits_mlp import workload as known\n"
        "class Model(nn.ModuleDict):\n"
        "    def forward(self, images):\n"
        "        return [*self.values()][0](images)\n"
        "own = lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
        "name = 'a\\x1b[31m\\nb\\u202e'\n"
        "workload = dataclasses.replace(known, model=lambda: Model({name: own()}))\n"
    )
    code, out, _ = tarmac("train", "mine.py:workload", "--summary")
    assert code == 0
    assert r"a\x1b[31m\nb\u202e" in out.splitlines()[1]


_LAYERS = """\
layer  kind     returns  parameters
0      Flatten  64
1      Linear   16            1,040
2      ReLU     16
3      Dropout  16
4      Linear   16              272
5      ReLU     16
6      Dropout  16
7      Linear   10              170
1,482 parameters
"""


def test_the_layers_of_a_workload_are_a_table(tarmac, tmp_path):
    words = ("train", "digits-mlp", "--set", "hidden=16")
    assert tarmac(*words, "--summary") == (0, _LAYERS, "")
    rows = json.loads(tarmac(*words, "--summary", "--json")[1])
    assert rows[1] == {"name": "1", "kind": "Linear", "shape": [16], "parameters": 1040}
    assert [*tmp_path.iterdir()] == []
    assert _LAYERS in tarmac(*words, "--epochs", "1", "--verbose")[1]
    assert tarmac("train", "--summary")[0] == 2
    assert tarmac(*words, "--summary", "--epochs", "2")[0] == 2


@pytest.mark.parametrize(
    ("reason", "is_told"), [(f"{ONE_OF_SEVERAL} 2: too few", True), ("the one GPU", False)]
)
def test_that_a_gpu_stays_idle_is_told_without_verbose(tarmac, monkeypatch, reason, is_told):
    monkeypatch.setattr(
        "tarmac.training.planning.make.choose_devices",
        lambda _options, candidates, *_, **__: (candidates, reason),
    )
    _, out, _ = tarmac("train", "digits-mlp", "--epochs", "1")
    assert (f"chosen     {reason}\n" in out) == is_told


def test_a_good_training_has_no_notes(tarmac):
    code, out, err = tarmac("train", "digits-mlp", "--epochs", "2")
    assert code == 0
    assert "note" not in out + err


def test_a_torch_optimizer_is_shown_by_its_name(tarmac, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import dataclasses, torch\n"
        "from tarmac.workloads import TorchOptimizer\n"
        "from tarmac.workloads.digits_mlp import workload as known\n"
        "optimizer = TorchOptimizer(kind=torch.optim.RAdam, learning_rate=1e-3)\n"
        "recipe = dataclasses.replace(known.recipe, optimizer=optimizer, epochs=1)\n"
        "workload = dataclasses.replace(known, recipe=recipe)\n"
    )
    _, out, _ = tarmac("train", "mine.py:workload")
    assert "torch.optim.RAdam, rate 0.001" in out
    for reference in ("mine:workload", "./mine:workload", "mine.workload"):
        code, _, err = tarmac("train", reference)
        assert code == 2
        assert "mine.py:workload'?" in err


def test_the_list_has_a_line_for_each_workload_and_the_settings_of_a_named_one(tarmac):
    _, out, _ = tarmac("train", "--list")
    assert "--set" not in out
    names = [line.split()[0] for line in out.splitlines()[:-1]]
    assert "digits-mlp" in names
    assert len(names) == len(set(names))
    code, out, _ = tarmac("train", "digits-mlp", "--list")
    assert code == 0
    assert "hidden=128" in out
    assert "expected: accuracy at least 0.96" in out
