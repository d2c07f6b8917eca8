"""99 % of MNIST: mnist-fast over thirty seeds in one process, and in fresh processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _harness import table
from gpu_stages._figures import accuracy, spread
from gpu_stages._tarmac import need_mnist, peer, train

if TYPE_CHECKING:
    from gpu_stages._report import Report

_SEEDS = 30
_FRESH = 5
_GOAL = 0.99


def run(report: Report) -> None:
    """Train, and say how many reach the goal."""
    need_mnist()
    rows = []
    with report.part("one process"):
        limit = report.seconds_left / 2
        answer = peer(report, "gpu_trainings.py", "mnist-fast", 0, _SEEDS, limit)
        report.keep("one process", answer["trainings"])
        rows.append(_row("one process", answer["trainings"]))
        rows.append(_row("one process, but for its first", answer["trainings"][1:]))
    with report.part("fresh processes"):
        fresh = []
        for seed in range(_FRESH):
            taken = train(report, "mnist-fast", "--seed", seed, "--no-check")
            fresh.append({"process_s": taken["process_s"], **taken["metrics"]})
            report.keep("fresh processes", fresh)
        rows.append(_row("fresh processes", fresh))
    header = ["", "n", "accuracy %", "at least 99 %", "training s", "process s"]
    report.page("mnist-fast", report.result, table(header, rows))


def _row(name: str, runs: list[dict]) -> list[str]:
    scores = [run["test_accuracy"] for run in runs]
    return [
        name,
        str(len(runs)),
        accuracy(scores),
        f"{sum(score >= _GOAL for score in scores)} of {len(scores)}",
        spread(runs, "train_seconds"),
        spread(runs, "process_s", 2),
    ]
