"""Networks of the published search as one stack, against one at a time in a living process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from _harness import table
from gpu_stages._tarmac import need_mnist, peer

if TYPE_CHECKING:
    from gpu_stages._report import Report

# Small ones first: each says something, and the large ones may be out of time.
_CASES = (
    (1, "equal", 4),
    (20, "equal", 4),
    (20, "mixed", 4),
    (100, "equal", 3),
    (100, "mixed", 3),
    (1000, "equal", 2),
    (1000, "mixed", 2),
)
_EPOCHS_ALONE = 5
_STEPS = 391  # of 50,000 samples, as the stacks'


def run(report: Report) -> None:
    """Measure one at a time, then stacks."""
    need_mnist()
    alone_us = None
    with report.part("one at a time"):
        answer = peer(report, "gpu_trainings.py", "mlp", 0, 4, 30, _EPOCHS_ALONE, limit_s=60)
        # The first has first use in it. 60,000 samples are 469 steps.
        warm = [one["train_seconds"] for one in answer["trainings"][1:]]
        alone_us = 1e6 * min(warm) / _EPOCHS_ALONE / 469
        whole = min(one["whole_s"] for one in answer["trainings"][1:])
        report.keep("one at a time", {"us_per_step": alone_us, "whole_s": whole})
    found: list[dict[str, Any]] = []
    for count, mix, epochs in _CASES:
        with report.part(f"{count} {mix}"):
            limit = min(100.0, report.seconds_left - 3)
            found.append(peer(report, "gpu_population.py", count, mix, epochs, limit_s=limit))
            report.keep("stacks", found)
    rows = [
        [
            f"{one['networks']} {one['mix']}",
            f"{one['epoch_s'] / _STEPS * 1e6:.0f}",
            f"{one['us_per_network_step']:.2f}",
            f"{alone_us / one['us_per_network_step']:.1f}" if alone_us else "",
            f"{one['setup_s']:.2f}",
            f"{one['trials_per_minute_of_20_epochs']:.0f}",
            f"{one['memory_mib']:.0f}",
        ]
        for one in found
    ]
    header = ["networks", "us a step", "us a network's step", "x alone", "set-up s"]
    header += ["trials/min", "GPU MiB"]
    text = (
        "Networks of 784-512-512-10, 391 steps of 128 an epoch and 10,000 samples scored; a trial "
        "is 20 epochs, with set-up. Alone is `tarmac.train` of the same network in a living "
        f"process, {alone_us or 0:.0f} us a step. mixed: seven optimizers, four activations in "
        "turns."
        f"\n\n{table(header, rows)}"
    )
    report.page("population", report.result, text)
