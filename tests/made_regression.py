"""Trainings of a regression made by hand: judged by a mean error, of which less is better."""

from __future__ import annotations

import json

from tarmac.runs import JudgedBy, Run

JUDGED = JudgedBy("mae", "min", among=("mae", "r2"))


def make_regression(output, name="regression", *, mae=2.5, count=4, status="completed", **changes):
    """Make the directory of a regression with its epochs; changes are those of its record."""
    run = Run.create(
        output,
        name=name,
        workload="diabetes",
        command=[],
        configuration={"workload": "diabetes", "epochs": count, "settings": {}},
        dataset={"name": "diabetes", "num_train": 353, "sample_shape": [10]},
        device={"type": "cpu", "index": None, "name": "a CPU"},
        versions={"python": "3.12.1"},
        seed=0,
        git=None,
        expectation=None,
        judged_by=JUDGED,
    )
    metrics = {"test_loss": mae**2, "test_mae": mae, "test_r2": 0.4, "train_seconds": 12.0}
    run.update(**{"status": status, "metrics": metrics if status == "completed" else {}} | changes)
    for number in range(1, count + 1):
        run.append_metrics(epoch_of(number))
    return run


def epoch_of(number):
    """Return an epoch's line: errors fall from epoch to epoch."""
    return {
        "epoch": number,
        "loss": 9 / number,
        "mae": 3 + 1 / number,
        "r2": 0.1 * number,
        "val_loss": 10 / number,
        "val_mae": 4 - 0.25 * number,
        "val_r2": 0.05 * number,
        "learning_rate": 0.01,
        "samples_per_s": 100.0,
        "seconds": 3.0,
    }


def record_of(run):
    """Return what a run's file says."""
    return json.loads((run.path / "run.json").read_text())
