"""A self-test holds of a sound workload, and names what is wrong with a hostile one."""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap

import pytest
from click.testing import CliRunner

from tarmac import RequestError, TarmacError
from tarmac.cli.commands.train import command
from tarmac.testing.selftest import selftest
from tarmac.workloads import find_workload

HEAD = """
import random
import numpy as np
import torch
from torch import nn
from tarmac.data import Dataset, Split
from tarmac.workloads import SGD, Recipe, Regression, Workload


def table() -> Dataset:
    x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    split = Split(x, x.sum(1))
    return Dataset("table", split, split)


def made(model, **changes):
    optimizer = SGD(learning_rate=0.1, momentum=0.9, nesterov=False)
    recipe = Recipe(optimizer=optimizer, batch_size=32, epochs=3)
    asked = dict(objective=Regression(), recipe=recipe) | changes
    return Workload(name="mine", summary="", dataset=table, model=model, **asked)
"""

HOSTILE = {
    "unseeded": (
        """
        class Noisy(nn.Linear):
            def forward(self, x):
                return super().forward(x) + random.SystemRandom().random() * self.training

        workload = made(lambda: Noisy(4, 1))
        """,
        "repeats",
        r"weight differs after step 1",
    ),
    "state outside": (
        """
        class Counting(nn.Linear):
            calls = 0
            def forward(self, x):
                if self.training:
                    self.calls += 1
                return super().forward(x) * (1 + self.calls)

        workload = made(lambda: Counting(4, 1))
        """,
        "resumes",
        r"weight differs after step 4",
    ),
    "untrained": (
        """
        class Idle(nn.Module):
            def __init__(self):
                super().__init__()
                self.used, self.idle = nn.Linear(4, 1), nn.Linear(4, 1)
            def forward(self, x):
                return self.used(x) + 0 * self.idle(x)

        workload = made(Idle)
        """,
        "trains",
        r"idle\.weight does not change",
    ),
    "raising": (
        """
        class Broken(nn.Linear):
            def forward(self, x):
                raise ValueError("no such thing")

        workload = made(lambda: Broken(4, 1))
        """,
        "trains",
        r"no such thing",
    ),
}

BATCH_NORM = """
workload = made(
    lambda width=8: nn.Sequential(
        nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, 1)
    )
)
"""


def written(folder, text):
    path = folder / "model.py"
    path.write_text(HEAD + textwrap.dedent(text))
    return f"{path}:workload"


def test_a_model_with_batch_norm_and_dropout_passes_on_processes_too(tmp_path):
    done = CliRunner().invoke(
        command, [written(tmp_path, BATCH_NORM), "--selftest", "--set", "width=4", "--json"]
    )
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert report["passed"] is True
    assert [(one["name"], one["held"]) for one in report["findings"]] == [
        (name, True) for name in ("trains", "repeats", "resumes", "towers", "ddp", "fsdp")
    ]


def test_what_fsdp_refuses_is_said_and_is_no_failure(tmp_path):
    averaged = """
    averaged = made(lambda: nn.Linear(4, 1))
    recipe = dataclasses.replace(averaged.recipe, ema=Ema(decay=0.9))
    workload = dataclasses.replace(averaged, recipe=recipe)
    """
    text = "import dataclasses\nfrom tarmac.workloads import Ema\n" + textwrap.dedent(averaged)
    done = CliRunner().invoke(command, [written(tmp_path, text), "--selftest"])
    assert done.exit_code == 0, done.output
    assert "fsdp     refused   two processes that share every parameter" in done.output
    assert "fsdp cannot keep a moving average of weights (ema)" in done.output
    assert "mine passed on 24 samples" in done.output


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_workload_is_told_where_it_differs_first(name, tmp_path):
    text, check, pattern = HOSTILE[name]
    # A copy is no attribute of a module, so that no processes are started for it.
    report = selftest(dataclasses.replace(find_workload(written(tmp_path, text))))
    assert not report.passed
    findings = {one.name: one for one in report.findings}
    assert findings[check].held is False
    assert re.search(pattern, findings[check].detail), findings[check].detail
    assert findings["ddp"].held is findings["fsdp"].held is None
    assert all(one.held or one.detail for one in report.findings)


def test_a_check_that_does_not_hold_ends_with_1_and_says_which(tmp_path):
    reference = written(tmp_path, HOSTILE["unseeded"][0])
    result = CliRunner().invoke(command, [reference, "--selftest"])
    assert isinstance(result.exception, TarmacError)
    assert result.exception.exit_code == 1
    assert "did not pass: repeats, resumes, towers, ddp, fsdp" in str(result.exception)
    assert "FAILED    one seed gives the same bits twice" in result.output
    assert "not tried" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--selftest"], "--selftest names no workload"),
        (
            ["digits-mlp", "--selftest", "--epochs", "3"],
            "--epochs cannot be changed in a self-test",
        ),
        (["digits-mlp", "--selftest", "--set", "width=3"], "width"),
    ],
)
def test_a_self_test_that_cannot_be_is_a_bad_request(words, message):
    result = CliRunner().invoke(command, words)
    assert isinstance(result.exception, RequestError)
    assert message in str(result.exception)


def test_too_few_samples_are_said(tmp_path):
    few = HEAD.replace("(64, 4)", "(20, 4)") + "workload = made(lambda: nn.Linear(4, 1))\n"
    path = tmp_path / "few.py"
    path.write_text(few)
    with pytest.raises(RequestError, match="table has 20 training samples"):
        selftest(f"{path}:workload")
