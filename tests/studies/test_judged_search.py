"""Searches of a workload that is judged by another metric than accuracy."""

import pytest

import judged_line
from tarmac.errors import RequestError
from tarmac.runs import JudgedBy
from tarmac.studies import search
from tarmac.studies.errors import FieldError
from tarmac.studies.opening import check_changes
from tarmac.studies.reporter import Silent
from tarmac.studies.study.glance import glance_search
from tarmac.studies.study.kind import SEARCH

REFERENCE = f"{judged_line.__file__}:workload"
MAE = JudgedBy("mae", "min", among=("mae", "near"))
FIELDS = {"epochs": 1, "devices": "cpu", "workers": 1, "space": {"hidden": [2, 4, 8]}}


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("evolve", {"population": 2, "generations": 2, "retain": 0.5}),
        ("brute", {}),
        ("tpe", {"trials": 2}),
    ],
)
def test_every_method_looks_for_the_least_error(tmp_path, method, fields):
    study = search(REFERENCE, output=tmp_path, method=method, **FIELDS, **fields)
    assert study.record.judged_by == MAE
    assert study.request.objective == ("val_mae",)
    assert study.record.directions == ("min",)
    errors = [row["values"]["val_mae"] for row in study.trials if row["state"] == "complete"]
    assert study.best.values == {"val_mae": min(errors)}
    assert study.best.test_accuracy is None
    assert study.best.tested(MAE) == study.best.test_metrics["test_mae"]
    shown = SEARCH.summarize(study.path)
    assert shown.metrics.keys() == {"val_mae", "test_mae"}
    assert glance_search(study.path).metric == min(errors)


def test_a_metric_whose_better_end_is_asked_for_is_maximized(tmp_path):
    fields = FIELDS | {"method": "brute", "objective": "near:max,loss"}
    study = search(REFERENCE, output=tmp_path, **fields)
    assert study.request.objective == ("val_near", "val_loss")
    assert study.maximize == [True, False]
    near = [row["values"]["val_near"] for row in study.trials]
    assert study.best.values["val_near"] == max(near)
    again, _ = check_changes(str(study.path), tmp_path, {"trials": 9})
    assert again.request.objective == study.request.objective
    check_changes(str(study.path), tmp_path, {"objective": "near:max,loss"})
    begun = "started with objective val_near:max, val_loss:min, not val_near:min, val_loss:min"
    with pytest.raises(RequestError, match=begun):
        check_changes(str(study.path), tmp_path, {"objective": "near:min,loss"})


def test_a_metric_whose_better_end_nobody_tells_is_refused(tmp_path):
    with pytest.raises(FieldError, match="it is not known whether higher or lower is better"):
        search(REFERENCE, output=tmp_path, objective="near", **FIELDS)
    assert not [*tmp_path.iterdir()]


class Watching(Silent):
    """Notes, at each finished network, whether the winner's process has started."""

    def __init__(self):
        self.has_started = []

    def trial_done(self, study, trial):
        self.has_started.append((study.path / "logs" / "winner.log").exists())


def test_the_winners_process_starts_while_the_last_generation_trains(tmp_path):
    """It imports PyTorch meanwhile."""
    watching = Watching()
    fields = FIELDS | {"method": "evolve", "population": 2, "generations": 2, "retain": 0.5}
    search(REFERENCE, output=tmp_path, reporter=watching, **fields)
    assert watching.has_started == [False, False, True]
