"""Where a step's time goes: kernels, their share, and what the GPU waits for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from _harness import table
from gpu_stages._tarmac import need_mnist, peer

if TYPE_CHECKING:
    from gpu_stages._report import Report

# 48 steps are three whole recordings of 16.
_STEPS = 48
_WHAT = ("mnist-mlp", "mnist-fast", "stack")


def run(report: Report) -> None:
    """Profile each in a process of its own."""
    need_mnist()
    found = {}
    for what in _WHAT:
        with report.part(what):
            found[what] = peer(report, "gpu_anatomy.py", what, _STEPS, limit_s=60)
            short = {name: value for name, value in found[what].items() if name != "kernels"}
            report.keep(what, short)
            report.artifact("anatomy.json").write_text(json.dumps(found, indent=1))
    report.page("anatomy", found, "\n\n".join(_page(what, one) for what, one in found.items()))


def _page(what: str, found: dict) -> str:
    rows = [
        [
            f"`{kernel['name'][:100]}`",
            f"{kernel['per_step']:.2f}",
            f"{kernel['us']:.2f}",
            f"{100 * kernel['share']:.1f}",
        ]
        for kernel in found["kernels"][:40]
    ]
    name = "a stack of 20 different networks" if what == "stack" else what
    return (
        f"## {name}\n\n{found['operations_per_step']:.1f} operations a step on the GPU take "
        f"{found['gpu_us_per_step']:.1f} us of {found['wall_us_per_step']:.1f}, under the profiler."
        f"\n\n{table(['kernel', 'a step', 'us', '% of the time'], rows)}"
    )
