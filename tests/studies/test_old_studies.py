"""Studies that earlier versions made stay readable, and go on.

``old/`` holds ``study.json`` and ``journal.log`` as version 0.1 wrote them (names of machines and
paths are replaced), for one request: ``completed`` is the whole search, ``killed`` was ended by
SIGKILL in its second generation, after network 5. ``schema-3`` is one of two networks, by a 0.2.0
that held out the last samples. ``schema-4`` is one with a patience, which watched the loss.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

import tarmac
from tarmac import data
from tarmac.cli import main
from tarmac.errors import RequestError
from tarmac.machine import find_devices
from tarmac.studies import Candidate, Numbers, Study
from tarmac.studies.evaluation.choice import choose_evaluator
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.studies.opening import check_changes
from tarmac.studies.space import fingerprint_of
from tarmac.workloads import find_workload

OLD = Path(__file__).with_name("old")


@pytest.fixture
def runs(tmp_path):
    """A directory with both studies, which may be written."""
    shutil.copytree(OLD, tmp_path / "runs")
    return tmp_path / "runs"


def plans(study):
    return [
        (row["number"], row["generation"], row["origin"], row["params"]) for row in study.trials
    ]


def test_old_studies_are_shown(runs, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["search", "show", str(runs / "completed"), "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert shown["status"] == "completed"
    assert shown["why_ended"] == "2 generations are done"
    assert [trial["state"] for trial in shown["trials"]] == ["complete"] * 8
    assert [group["survivors"] for group in shown["generations"]] == [0, 2]
    assert shown["totals"]["saved"] == 7
    assert shown["best"]["number"] == 7
    assert shown["best"]["test_accuracy"] == pytest.approx(0.7967, abs=1e-4)
    killed = Study.open(runs / "killed")
    assert killed.status == "interrupted"
    assert [row["state"] for row in killed.trials].count("complete") == 6


def test_old_studies_are_plotted(runs):
    with pytest.raises(SystemExit) as ended:
        main(["search", "plot", str(runs / "completed")])
    assert ended.value.code == 0
    page = (runs / "completed" / "plot.html").read_text()
    assert page.count('<figure class="plot') == 6
    assert len(page) < 200_000


def test_an_old_study_that_was_killed_goes_on_trial_for_trial(runs):
    before = Study.open(runs / "killed").trials
    study = tarmac.search(resume=runs / "killed")
    assert study.status == "completed"
    assert plans(study) == plans(Study.open(runs / "completed"))
    assert [row for row in study.trials if row["number"] <= 5] == before[:6]
    assert study.best.test_accuracy > 0.5
    assert len(study.best.confirmed) == 2


def test_an_old_study_that_was_completed_may_go_further(runs):
    before = Study.open(runs / "completed").trials
    study = tarmac.search(resume=runs / "completed", generations=3, workers=1)
    assert study.record.why_ended == "3 generations are done"
    assert study.trials[: len(before)] == before
    assert len(study.trials) > len(before)


def test_a_study_whose_whole_range_was_stored_as_floats_goes_on(make_study):
    study = make_study({"neurons": Numbers(8, 32, 8, whole=True)})
    path = study.path / "study.json"
    record = json.loads(path.read_text())
    record["space"]["neurons"] |= {"low": 8.0, "high": 32.0, "step": 8.0}
    record["fingerprint"] = fingerprint_of(record["space"])
    path.write_text(json.dumps(record))
    space = Study.open(study.path).space
    assert [str(value) for value in space.parameters["neurons"].all()] == ["8", "16", "24", "32"]
    assert space.fingerprint == study.space.fingerprint


def test_a_study_of_schema_3_goes_on_with_the_last_samples(runs):
    study, _ = check_changes(str(runs / "schema-3"), runs, {"trials": 2})
    assert study.record.validation_split == "last"
    cpu = dataclasses.replace(find_devices("cpu")[0], num_threads=1)
    chosen = choose_evaluator(study, (cpu,), lambda: False)
    candidate = Candidate(number=1, settings={"hidden": 8}, seed=0, epochs=1)
    digits = data.load("digits")
    losses = {}
    for split in ("last", "random"):
        own = StackedEvaluator(
            find_workload("digits-mlp"), digits, validation_size=239, validation_split=split
        )
        (result,) = own.evaluate([candidate], lambda progress: False)
        losses[split] = result.metrics["val_loss"]
    (result,) = chosen.evaluator.evaluate([candidate], lambda progress: False)
    assert result.metrics["val_loss"] == losses["last"] != losses["random"]
    check_changes(str(runs / "schema-3"), runs, {"validation_split": "last"})
    with pytest.raises(RequestError, match="was started with validation_split last, not random"):
        check_changes(str(runs / "schema-3"), runs, {"validation_split": "random"})


def test_a_study_of_schema_4_goes_on_to_watch_the_loss(runs):
    study, request = check_changes(str(runs / "schema-4"), runs, {})
    assert (request.patience, request.monitor) == (1, None)
    assert Candidate(number=0, settings={}, seed=0, epochs=1).monitor == "loss:min"
    _, request = check_changes(str(runs / "schema-4"), runs, {"trials": 3}, what="digits-mlp")
    assert request.monitor is None
    with pytest.raises(RequestError, match="was started with monitor"):
        check_changes(str(runs / "schema-4"), runs, {"monitor": "val_accuracy"})
    assert study.record.best.number == 1
