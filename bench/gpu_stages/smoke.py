"""Does anything raise: a short training each way, each in a process of its own, some at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from gpu_stages._tarmac import can_fuse, peer, train

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_stages._report import Report

_SHORT = ("digits-mlp", "--epochs", 3)
# Each loads PyTorch, on machines of few cores one after another in the end.
_AT_ONCE = 4


def run(report: Report) -> None:
    """Train digits-mlp in every precision and way, and a stack of four networks."""

    def trained(*words: object) -> Callable[[], object]:
        return lambda: train(report, *_SHORT, *words, "--no-check")

    cases = {
        "as it is": lambda: train(report, *_SHORT),
        "bf16": trained("--precision", "bf16"),
        "fp32": trained("--precision", "fp32"),
        "fp64": trained("--precision", "fp64"),
        "deterministic": trained("--deterministic"),
        "prefetch": trained("--feed", "prefetch"),
        "accumulate": trained("--accumulate", 2),
        "validation": trained("--validation-size", 200),
        "ddp of one": trained("--strategy", "ddp", "--devices", 1),
        "stack of 4": lambda: peer(report, "gpu_population.py", 4, "mixed", 2, "digits"),
    }
    if can_fuse():
        cases |= {"fused": trained("--fused", "on"), "unfused": trained("--fused", "off")}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        started = {name: pool.submit(case) for name, case in cases.items()}
        for name, future in started.items():
            with report.part(name):
                report.keep(name, future.result())
    # All that ran must have run on the GPU: an answer of a CPU says nothing here.
    with report.part("on the GPU"):
        devices = {name: answer["device"] for name, answer in report.result.items()}
        assert set(devices.values()) == {"cuda"}, devices
