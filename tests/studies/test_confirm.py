"""The best of many are trained again before one of them is the winner."""

from __future__ import annotations

import statistics

import pytest

import tarmac
from tarmac.studies import Result
from tarmac.studies.confirm import confirm
from tarmac.studies.opening import resume_study
from tarmac.studies.study.writer import StudyWriter
from tarmac.studies.winner import choose_winner

SPACE = {"dataset": "digits", "neurons": [16, 32, 64], "layers": 1}


class Scores:
    """Gives each network a score by its size, and notes from which seeds it was asked for."""

    def __init__(self, scores) -> None:
        self.scores = scores
        self.asked: list[tuple[int, int]] = []

    def evaluate(self, candidates, report):
        for candidate in candidates:
            neurons = candidate.settings["neurons"]
            self.asked.append((neurons, candidate.seed))
            score = self.scores[neurons]
            if score is None:
                yield Result(number=candidate.number, error="it diverged")
            else:
                yield Result(number=candidate.number, metrics={"val_accuracy": score})


def brute(tmp_path, **fields):
    return tarmac.search("mlp", output=tmp_path, space=SPACE, method="brute", epochs=2, **fields)


def test_the_best_mean_over_seeds_wins(tmp_path):
    study = brute(tmp_path, confirm=2)
    assert {number: len(values) for number, values in study.record.confirmed.items()} == {
        trial["number"]: 2
        for trial in sorted(study.trials, key=lambda trial: -trial["val_accuracy"])[:2]
    }
    own = {trial["number"]: trial["val_accuracy"] for trial in study.trials}
    means = {n: statistics.fmean((own[n], *v)) for n, v in study.record.confirmed.items()}
    assert study.best.number == max(means, key=means.get)
    assert study.best.confirmed == study.record.confirmed[study.best.number]


@pytest.mark.parametrize("diverged", [None, float("nan")])
def test_a_network_that_was_only_lucky_does_not_win(tmp_path, diverged):
    study = brute(tmp_path)
    order = sorted(study.trials, key=lambda trial: -trial["val_accuracy"])
    sizes = [trial["params"]["neurons"] for trial in order]
    study = resume_study(str(study.path), tmp_path, {"confirm": 3})
    scores = Scores({sizes[0]: 0.0, sizes[1]: diverged, sizes[2]: 1.0})
    study.update(confirmed=confirm(study, scores, lambda: False))
    assert sorted(scores.asked) == sorted((size, seed) for size in sizes for seed in (1, 2))
    winner = choose_winner(study)
    assert winner is not None
    assert winner.settings["neurons"] == sizes[2]
    assert winner.confirmed == (1.0, 1.0)


def test_what_is_confirmed_is_not_confirmed_again(tmp_path):
    study = StudyWriter.open(brute(tmp_path, confirm=2).path)
    scores = Scores({})
    assert confirm(study, scores, lambda: False) == study.record.confirmed
    assert scores.asked == []


def test_a_finished_study_is_confirmed_when_that_is_asked_for_on_resuming(tmp_path):
    study = brute(tmp_path)
    assert study.best.confirmed == ()
    again = tarmac.search(resume=study.path, confirm=3)
    assert again.request.confirm == 3
    assert sorted(again.record.confirmed) == [0, 1, 2]
    own = {trial["number"]: trial["val_accuracy"] for trial in again.trials}
    means = {n: statistics.fmean((own[n], *v)) for n, v in again.record.confirmed.items()}
    assert again.best.number == max(means, key=means.get)
    assert again.best.confirmed == again.record.confirmed[again.best.number]
    assert again.best.test_accuracy is not None
