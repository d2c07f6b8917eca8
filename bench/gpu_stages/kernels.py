"""The fused network: its tests against float64 on the GPU, and its time by number of networks."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from _harness import table
from gpu_stages._pytest import marked_files, run_tests
from gpu_stages._report import Skip
from gpu_stages._tarmac import peer

if TYPE_CHECKING:
    from gpu_stages._report import Report

_CASES = (
    *((1, "784,512,512,10"), (20, "784,512,512,10"), (100, "784,512,512,10")),
    *((1000, "784,512,512,10"), (1, "784,1000,1000,10"), (20, "784,64,10"), (20, "784,300,77,10")),
)


def run(report: Report) -> None:
    """Test, then time.

    Raises:
        Skip: There are no kernels, or nothing to compile them with.
    """
    if importlib.util.find_spec("tarmac.kernels") is None:
        raise Skip("this Tarmac has no kernels of its own")
    from tarmac.kernels import why_not

    if (reason := why_not()) is not None:
        raise Skip(reason)
    with report.part("times"):
        answer = peer(report, "gpu_kernels.py", *_CASES_AS_WORDS, limit_s=report.seconds_left / 2)
        report.keep("times", answer["stacks"])
        rows = [
            [
                str(one["networks"]),
                one["sizes"],
                one["mix"],
                f"{one['first_s']:.2f}",
                f"{one['us_per_step']:.1f}",
                f"{one['us_per_step'] / one['networks']:.2f}",
            ]
            for one in answer["stacks"]
        ]
        header = ["networks", "widths", "", "first step s", "us a step", "us a network's step"]
        report.page("kernels", report.result, table(header, rows))
    with report.part("tests"):
        files = [path for path in marked_files() if path.startswith("tests/kernels/")]
        if not files:
            raise RuntimeError("no test of the kernels is marked gpu")
        run_tests(report, files, report.scratch / "junit.xml")


_CASES_AS_WORDS = [f"{networks}:{sizes}" for networks, sizes in _CASES]
