"""The published genetic search on all of MNIST, as a user starts it: the whole process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _harness import TARMAC, table
from gpu_stages._tarmac import need_mnist, run_json

if TYPE_CHECKING:
    from gpu_stages._report import Report

_WAYS = {"without halving": "none", "with halving": "halving"}


def run(report: Report) -> None:
    """Search, and train the winner."""
    need_mnist()
    rows = []
    for name, prune in _WAYS.items():
        with report.part(name):
            command = [*TARMAC, "--debug", "search", "mlp-evolve", "--set", "dataset=mnist"]
            command += ["--generations", "10", "--population", "20", "--prune", prune]
            output = str(report.scratch / "runs")
            answer = run_json(report, [*command, "--json", "--output", output])
            kept = {key: answer[key] for key in ("totals", "best", "process_s")}
            report.keep(name, kept)
            trained = answer["totals"]["trained"]
            rows.append(
                [
                    name,
                    f"{answer['process_s']:.1f}",
                    str(trained),
                    f"{60 * trained / answer['process_s']:.0f}",
                    f"{answer['best']['values']['val_accuracy']:.4f}",
                    f"{answer['best']['test_accuracy']:.4f}",
                ]
            )
    header = ["", "process s", "networks", "networks/min", "held-out accuracy", "test accuracy"]
    report.page("search-mnist", report.result, table(header, rows))
