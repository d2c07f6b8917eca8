"""A training tells the trackers that it is asked to tell, and goes on whatever they do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tarmac import TarmacError, runs
from tarmac.training import resume, train
from tarmac.training.session import tracking

SMALL = {"epochs": 2, "train_size": 64, "devices": "cpu"}


class Fake:
    """A tracker that was opened, and remembers what it is told."""

    def __init__(self) -> None:
        self.place = "http://127.0.0.1/run"
        self.problem = ""
        self.told = []

    def log(self, step, metrics):
        self.told.append((step, min(metrics)))

    def end(self, status, summary):
        self.told.append((status, summary.get("test_accuracy") is not None))


@pytest.fixture
def opened(monkeypatch) -> Iterator[list[Fake]]:
    made = []

    def open_fake(name, run):
        assert name == "wandb"
        made.append(Fake())
        return made[-1]

    monkeypatch.setattr(tracking, "open_tracker", open_fake)
    monkeypatch.setattr("tarmac.training.planning.options.check_tracker", lambda _: None)
    return made


def test_a_tracker_is_told_of_every_epoch_and_of_the_end(tmp_path, opened):
    run = train("digits-mlp", output=tmp_path, log_to=["wandb"], **SMALL)
    (tracker,) = opened
    assert tracker.told == [(1, "accuracy"), (2, "accuracy"), ("completed", True)]
    assert run.record.tracked == {"wandb": "http://127.0.0.1/run"}
    assert run.record.configuration["log_to"] == ["wandb"]


def test_workers_of_ddp_are_told_of_once(tmp_path, opened):
    several = SMALL | {"devices": "cpu:2", "strategy": "ddp", "epochs": 1}
    train("digits-mlp", output=tmp_path, log_to=["wandb"], **several)
    assert [tracker.told for tracker in opened] == [[(1, "accuracy"), ("completed", True)]]


def test_a_training_that_goes_on_is_told_of_again(tmp_path, opened):
    run = train("digits-mlp", output=tmp_path, log_to=["wandb"], interrupted=lambda: True, **SMALL)
    resume(run.path)
    assert opened[0].told == [("interrupted", False)]
    assert opened[1].told == [(1, "accuracy"), (2, "accuracy"), ("completed", True)]


def test_a_training_that_fails_is_told_of(tmp_path, opened):
    def stop(row):
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - its own
        train("digits-mlp", output=tmp_path, log_to=["wandb"], stop=stop, **SMALL)
    assert opened[0].told[-1] == ("failed", False)


def test_a_tracker_that_cannot_be_opened_fails_the_training_before_its_first_step(
    tmp_path, opened, monkeypatch
):
    def refuse(name, run):
        raise TarmacError("Weights & Biases cannot be opened: no")

    monkeypatch.setattr(tracking, "open_tracker", refuse)
    with pytest.raises(TarmacError, match="cannot be opened"):
        train("digits-mlp", output=tmp_path, log_to=["wandb"], **SMALL)
    (run,) = runs.list_runs(tmp_path)[0]
    assert (run.status, run.history) == ("failed", [])


def test_what_a_tracker_did_not_take_is_a_warning_at_the_end(tmp_path, opened, monkeypatch):
    def open_troubled(name, run):
        fake = Fake()
        fake.problem = "the server was away"
        return fake

    monkeypatch.setattr(tracking, "open_tracker", open_troubled)
    with pytest.warns(UserWarning, match="has only part of the run: the server was away"):
        run = train("digits-mlp", output=tmp_path, log_to=["wandb"], **SMALL)
    assert run.record.status == "completed"


def test_an_unknown_tracker_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(TarmacError, match="unknown tracker 'wandbb'"):
        train("digits-mlp", output=tmp_path, log_to=["wandbb"], **SMALL)
    assert not list(tmp_path.iterdir())
