"""A search tells trackers of each network, as a step of one run."""

from __future__ import annotations

import pytest

import tarmac
from tarmac import TarmacError
from tarmac.studies import open_study, tracking
from tarmac.studies.reporter import Silent

SMALL = {
    "space": {"hidden": [4, 8]},
    "method": "brute",
    "epochs": 1,
    "train_size": 64,
    "validation_size": 32,
    "devices": "cpu",
}


class Fake:
    place = "here"

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        self.told = []
        self.ended = None

    def log(self, step, metrics):
        self.told.append((step, metrics))

    def end(self, status, summary):
        self.ended = (status, summary)


def open_as(fake: Fake, monkeypatch) -> list:
    runs = []
    monkeypatch.setattr(tracking, "check_tracker", lambda _: None)
    monkeypatch.setattr(tracking, "open_tracker", lambda _, run: runs.append(run) or fake)
    return runs


def test_each_network_is_a_step_and_the_best_is_the_summary(tmp_path, monkeypatch):
    fake = Fake()
    runs = open_as(fake, monkeypatch)
    study = tarmac.search("digits-mlp", output=tmp_path, log_to=["wandb"], **SMALL)
    assert sorted(step for step, _ in fake.told) == [0, 1]
    for _, metrics in fake.told:
        assert metrics.keys() >= {"hidden", "val_accuracy", "seconds", "num_parameters"}
        assert all(isinstance(value, int | float) for value in metrics.values())
    status, summary = fake.ended
    assert status == "completed"
    assert summary["best.test_accuracy"] == study.best.test_accuracy
    assert runs[0].name == study.path.name
    assert runs[0].configuration["method"] == "brute"


def test_a_search_that_goes_on_without_this_process_is_told_as_interrupted(tmp_path, monkeypatch):
    fake = Fake()
    open_as(fake, monkeypatch)
    study = open_study("digits-mlp", output=tmp_path, **SMALL)
    with study.leases.work(), tracking.tracked(study, Silent(), ["wandb"]):
        study.update(status="running")
    assert fake.ended == ("interrupted", {})


def test_what_is_not_taken_is_a_warning_and_no_failure(tmp_path, monkeypatch):
    open_as(Fake("the server was away"), monkeypatch)
    with pytest.warns(UserWarning, match="has only part of the search: the server was away"):
        study = tarmac.search("digits-mlp", output=tmp_path, log_to=["wandb"], **SMALL)
    assert study.record.status == "completed"


def test_an_unknown_tracker_is_refused_before_a_study_is_made(tmp_path):
    with pytest.raises(TarmacError, match="unknown tracker"):
        tarmac.search("digits-mlp", output=tmp_path, log_to=["wandbb"], **SMALL)
    assert not list(tmp_path.iterdir())
