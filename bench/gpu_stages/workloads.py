"""The other workloads on MNIST, with their own recipes, held to what they are expected to reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _harness import table
from gpu_stages._tarmac import need_mnist, train

if TYPE_CHECKING:
    from gpu_stages._report import Report

_NAMES = ("mnist-convnet", "mnist-cnn", "mnist-chainer-mlp")


def run(report: Report) -> None:
    """Train each once and verify it."""
    need_mnist()
    rows = []
    for name in _NAMES:
        with report.part(name):
            # Exit code 1 says that the result is not as expected, in an answer that is kept.
            answer = train(report, name, "--verify", "--no-check", codes=(0, 1))
            report.keep(name, answer)
            rows.append(
                [
                    name,
                    str(len(answer["epoch_s"])),
                    f"{answer['epoch_s'][-1]:.3f}",
                    f"{answer['metrics']['train_seconds']:.2f}",
                    f"{answer['process_s']:.1f}",
                    f"{100 * answer['metrics']['test_accuracy']:.2f}",
                    f"{answer['memory_mib']}",
                ]
            )
            if answer["exit_code"] != 0:
                raise RuntimeError(answer["expectation"]["text"])
    header = ["", "epochs", "last epoch s", "training s", "process s", "accuracy %", "GPU MiB"]
    report.page("workloads", report.result, table(header, rows))
