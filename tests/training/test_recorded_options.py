"""What a run goes on with is what its record says, and nothing that the record does not say."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

import tarmac
from tarmac.errors import TarmacError
from tarmac.runs import Run
from tarmac.training import Options, extend, plan_to_score
from tarmac.workloads import find_workload

WORKLOAD = find_workload("digits-mlp")


@pytest.fixture
def stopped(tmp_path):
    """Return a run that was stopped in its second epoch."""
    steps = iter([False, False, False])
    asked = {"train_size": 64, "validation_size": 20, "device": "cpu", "precision": "fp32"}
    run = tarmac.train(
        "digits-mlp",
        output=tmp_path,
        epochs=3,
        score_test=False,
        interrupted=lambda: next(steps, True),
        **asked,
    )
    assert run.record.status == "interrupted"
    return run


def rewrite(run: Run, version: int, without: set[str]) -> Run:
    record = json.loads((run.path / "run.json").read_text())
    kept = {key: value for key, value in record["configuration"].items() if key not in without}
    changed = record | {"schema_version": version, "configuration": kept}
    (run.path / "run.json").write_text(json.dumps(changed))
    return Run.open(run.path)


def test_a_record_that_lacks_an_option_is_damaged_for_whoever_goes_on_with_it_or_scores_it(stopped):
    recorded = stopped.record.configuration.keys() - {"scale_lr", "init_from"}
    names = {field.name for field in dataclasses.fields(Options)} & recorded
    assert {"precision", "feed", "seed", "threads", "settings"} <= names
    text = (stopped.path / "run.json").read_text()
    for name in sorted(names):
        message = re.escape(f"run.json is damaged: it does not say {name}")
        run = rewrite(stopped, 7, without={name})
        with pytest.raises(TarmacError, match=message):
            tarmac.resume(run.path)
        with pytest.raises(TarmacError, match=message):
            extend(run.path, epochs=4)
        with pytest.raises(TarmacError, match=message):
            plan_to_score(run, WORKLOAD)
        (stopped.path / "run.json").write_text(text)


def test_a_run_of_the_first_version_goes_on_and_then_says_all_that_it_goes_on_with(stopped):
    first = {"workload", "epochs", "batch_size", "learning_rate", "train_size", "validation_size"}
    first |= {"seed", "precision", "compile", "deterministic", "checkpoint_every", "settings"}
    record = json.loads((stopped.path / "run.json").read_text())
    record["configuration"]["device"] = "cpu"
    (stopped.path / "run.json").write_text(json.dumps(record))
    rewrite(stopped, 1, without=record["configuration"].keys() - first - {"device"})
    again = tarmac.resume(stopped.path)
    assert again.record.status == "completed"
    assert again.record.schema_version == 7
    # An older one that was resumed by a version that wrote nothing for what it did not have.
    rewrite(again, 6, without={"validation_split", "validation_seed", "monitor", "threads"})
    assert plan_to_score(Run.open(again.path), WORKLOAD).precision == "fp32"
