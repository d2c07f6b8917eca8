"""CIFAR-10 over seeds in one process: 94 % by cifar10-fast, and the convnet's own expectation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _harness import table
from gpu_stages._figures import accuracy, spread
from gpu_stages._report import Skip
from gpu_stages._tarmac import DATA_VARIABLE, peer

if TYPE_CHECKING:
    from gpu_stages._report import Report

_GOAL = 0.94
# Of the published test set: cat, ship, ship, airplane, frog, frog, automobile, frog.
_FIRST_LABELS = (3, 8, 8, 0, 6, 6, 1, 6)
# The most seeds, and its share of the stage's time.
_WORKLOADS = {"cifar10-fast": (50, 0.5), "cifar10-convnet": (2, 0.4)}


def run(report: Report) -> None:
    """Train each workload that this Tarmac has.

    Raises:
        Skip: The data are not here.
    """
    from tarmac import data
    from tarmac.workloads import workload_names

    # Asked for first: loading would look for it on a network.
    state = next(status.state for status in data.describe() if status.name == "cifar10")
    if state != "present":
        raise Skip(f"CIFAR-10 is {state} under {DATA_VARIABLE}")
    dataset = data.load("cifar10")
    report.keep("dataset", {"num_train": len(dataset.train), "fingerprint": dataset.fingerprint})
    rows = []
    for name, (count, share) in _WORKLOADS.items():
        if name not in workload_names():
            report.keep(name, "there is no such workload")
            continue
        with report.part(name):
            limit = share * report.seconds_left
            runs = peer(report, "gpu_trainings.py", name, 0, count, limit)["trainings"]
            report.keep(name, runs)
            rows += [_row(name, runs), _row(f"{name}, but for the first", runs[1:])]
    header = ["", "n", "accuracy %", "at least 94 %", "training s", "whole s"]
    labels = tuple(int(label) for label in dataset.test.targets[: len(_FIRST_LABELS)])
    published = labels == _FIRST_LABELS
    origin = "" if published else " They are a copy, not in the published order: say so with these."
    text = (
        "Seeds in one process; the first has first use in it. The data's fingerprint is "
        f"{dataset.fingerprint}.{origin}\n\n{table(header, rows)}"
    )
    report.page("cifar10", report.result, text)


def _row(name: str, runs: list[dict]) -> list[str]:
    scores = [run["test_accuracy"] for run in runs]
    return [
        name,
        str(len(runs)),
        accuracy(scores) if scores else "",
        f"{sum(score >= _GOAL for score in scores)} of {len(scores)}",
        spread(runs, "train_seconds"),
        spread(runs, "whole_s"),
    ]
