"""Every form that a parameter of a search may have is trained, by each method and both evaluators.

Nothing here starts a process: a worker's own function trains in this one.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap

import pytest
import yaml
from optuna.trial import TrialState

from tarmac.machine import find_devices
from tarmac.studies import Silent
from tarmac.studies.evaluation import worker
from tarmac.studies.evaluation.choice import choose_evaluator
from tarmac.studies.evaluation.in_processes import ProcessEvaluator
from tarmac.studies.evaluation.interface import Progress, Result
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.studies.loop import SearchLoop
from tarmac.studies.notation import parse_set
from tarmac.studies.opening import open_study

WORKLOAD = """
    from typing import Annotated, Literal

    import numpy as np
    from torch import nn

    from tarmac.data import Dataset, Split
    from tarmac.studies import Range
    from tarmac.workloads import Adam, Recipe, Workload

    def samples(count, seed):
        y = np.arange(count) % 2
        x = np.random.default_rng(seed).normal(90 + 60 * y[:, None], 30.0, (count, 3))
        return Split(x.clip(0, 255).astype(np.uint8), y)

    def model(
        hidden: Annotated[int, Range(2, 4)] = 4,
        dropout: float = 0.0,
        deep: bool = False,
        activation: Literal["relu", "tanh"] = "relu",
    ):
        kind = {"relu": nn.ReLU, "tanh": nn.Tanh}[activation]
        more = [nn.Linear(hidden, hidden), kind()] if deep else []
        return nn.Sequential(
            nn.Linear(3, hidden), kind(), nn.Dropout(dropout), *more, nn.Linear(hidden, 2)
        )

    workload = Workload(
        name="tiny",
        summary="two clouds",
        dataset=lambda: Dataset("clouds", samples(48, 0), samples(8, 1), num_classes=2),
        model=model,
        recipe=Recipe(
            optimizer=Adam(learning_rate=1e-2, beta1=0.9, beta2=0.999, eps=1e-8),
            batch_size=16,
            epochs=1,
        ),
    )
"""

DEFAULTS = {
    "hidden": 4,
    "dropout": 0.0,
    "deep": False,
    "activation": "relu",
    "learning_rate": 1e-2,
    "batch_size": 16,
    "optimizer.eps": 1e-8,
}

# What stands behind --set.
TEXTS = {
    "whole": ["hidden=2..5"],
    "whole with a step": ["hidden=2..6:2"],
    "whole, logarithmic": ["hidden=2..16:log"],
    "whole, of one number": ["hidden=3..3", "dropout=0,0.5"],
    "whole, written as floats": ["hidden=2.0..4e0:1.0"],
    "a number of an option": ["batch_size=8..24:8"],
    "real": ["dropout=0..0.5"],
    "real with a step": ["dropout=0..0.5:0.25"],
    "real, logarithmic": ["learning_rate=1e-4..1e-1:log"],
    "real, between whole ends": ["learning_rate=1..2"],
    "real, of a part of the recipe": ["optimizer.eps=1e-9..1e-7:log"],
    "whole numbers by name": ["hidden=2,3,4"],
    "whole numbers by name, as floats": ["hidden=2.0,3e0"],
    "real numbers by name": ["dropout=0,0.1,2e-1"],
    "texts by name": ["activation=relu,tanh"],
    "truths by name": ["deep=true,false"],
    "fixed beside a range": ["hidden=2..4", "dropout=0.25", "deep=true", "batch_size=8"],
    "all at once": [
        "hidden=2..4",
        "dropout=0..0.5:0.25",
        "activation=relu,tanh",
        "batch_size=8,16",
    ],
    "what the workload itself says": [],
    "what it says, with one fixed": ["activation=tanh"],
}

# What stands under `space` in a file, in forms that options have not.
FILES = {
    "a mapping of a whole range": {"hidden": {"low": 2, "high": 4}},
    "a mapping with a step": {"hidden": {"low": 2, "high": 6, "step": 2}},
    "a mapping, logarithmic": {"hidden": {"low": 2, "high": 16, "log": True}},
    "a mapping of a real range": {"dropout": {"low": 0, "high": 1}},
    "a range as text": {"hidden": "2..6:2", "dropout": "0..0.5:0.25"},
    "lists": {"hidden": [2, 4], "deep": [True, False], "activation": ["relu", "tanh"]},
    "a list of one number and texts of others": {"hidden": [2, "3", 4.0]},
    "a mapping of choices": {"hidden": {"choices": [2, 3]}},
    "fixed values": {"hidden": "2..4", "deep": True, "activation": "tanh", "dropout": 0},
    "a whole range under a condition": {
        "deep": [True, False],
        "hidden": {"low": 2, "high": 4, "when": {"deep": True}},
    },
    "a real range under a condition of whole numbers": {
        "hidden": [2, 4],
        "dropout": {"low": 0.0, "high": 0.5, "step": 0.25, "when": {"hidden": [4]}},
    },
    "choices under a condition of a text": {
        "activation": ["relu", "tanh"],
        "hidden": {"choices": [2, 3], "when": {"activation": "tanh"}},
    },
    "a condition on a whole range": {
        "hidden": {"low": 2, "high": 4},
        "deep": {"choices": [True, False], "when": {"hidden": [3, 4.0]}},
    },
}

METHODS = {
    "random": {"trials": 2},
    "tpe": {"trials": 2},
    "nsga2": {"trials": 2},
    "cmaes": {"trials": 2},
    "evolve": {"population": 2, "generations": 2, "retain": 0.5},
    "brute": {"trials": 2},
}


class InThisProcess:
    """Trains as the workers of a `ProcessEvaluator` do, without one."""

    def __init__(self, evaluator: ProcessEvaluator) -> None:
        self._evaluator = evaluator

    def evaluate(self, candidates, report):
        for candidate in candidates:
            self._report, self._number = report, candidate.number
            job = self._evaluator._job(candidate, self._evaluator._slots[0])
            worker._work(job, self)
            failed = self._last.get("failed")
            yield Result(number=candidate.number, metrics=self._last.get("done", {}), error=failed)

    def send(self, **message):
        self._last = message

    def receive(self):
        progress = Progress(number=self._number, **self._last)
        return {"stop": self._report(progress)}


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    path = tmp_path_factory.mktemp("forms") / "tiny.py"
    path.write_text(textwrap.dedent(WORKLOAD))
    return f"{path}:workload"


def search_here(what, output, **fields):
    """Search to the end, but for the winner's own training; return the study."""
    (cpu,) = find_devices("cpu")
    study = open_study(what, output=output, devices="cpu", **fields)
    chosen = choose_evaluator(
        study, (dataclasses.replace(cpu, num_threads=1),), halted=lambda: False
    )
    is_stacked = study.request.workers is None
    assert isinstance(chosen.evaluator, StackedEvaluator if is_stacked else ProcessEvaluator)
    if not is_stacked:
        chosen = dataclasses.replace(chosen, evaluator=InThisProcess(chosen.evaluator))
    with study.leases.work() as owner:
        assert SearchLoop(study, owner, Silent(), lambda: False).run(chosen)
    return study


def check(study):
    """Fail unless each network was trained, with values of its settings' own types."""
    assert study.ledger.trials
    for trial in study.ledger.trials:
        assert trial.state == TrialState.COMPLETE, trial.user_attrs
        assert math.isfinite(trial.values[0])
        settings = study.settings_of(trial)
        for name, value in settings.items():
            assert type(value) is type(DEFAULTS[name]), (name, value)
        assert study.space.problems(settings) == []


@pytest.mark.parametrize("workers", [None, 1], ids=["stacked", "by workers"])
@pytest.mark.parametrize("form", TEXTS)
def test_every_form_of_an_option_runs(workload, tmp_path, form, workers):
    space = dict(map(parse_set, TEXTS[form]))
    check(search_here(workload, tmp_path, space=space, method="random", trials=2, workers=workers))


@pytest.mark.parametrize("workers", [None, 1], ids=["stacked", "by workers"])
@pytest.mark.parametrize("form", FILES)
def test_every_form_of_a_file_runs(workload, tmp_path, form, workers):
    path = tmp_path / "study.yaml"
    content = {"workload": workload, "method": "random", "trials": 2, "space": FILES[form]}
    path.write_text(yaml.safe_dump(content))
    check(search_here(path, tmp_path, workers=workers))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "text",
    ["hidden=2..6:2", "hidden=2..9:log", "dropout=0..0.5:0.25", "learning_rate=1e-4..1e-1:log"],
)
def test_every_method_runs_over_every_kind_of_range(workload, tmp_path, method, text):
    if method == "cmaes":
        pytest.importorskip("cmaes")
    if method == "brute" and text.startswith("learning_rate"):
        text = "learning_rate=0.1..0.3:0.1"
    sets = [text] if method != "cmaes" else [text, "optimizer.eps=1e-9..1e-7:log"]
    space = dict(map(parse_set, sets))
    check(search_here(workload, tmp_path, space=space, method=method, **METHODS[method]))
