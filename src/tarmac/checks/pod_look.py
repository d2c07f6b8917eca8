"""Checks a pod for ``tarmac check --on``: ``python -m tarmac.checks.pod_look COUNT FILE``.

The answer is one JSON object in FILE, a container's termination log. It has the versions of Python,
Tarmac and the driver, and the GPUs by name. ``failures`` are reasons not to use the node, and
``unseen`` are the parts that gave no answer, a line each. Exit code 0 means that the answer was
written, whatever it says.
"""

from __future__ import annotations

import collections
import json
import platform
import sys
from pathlib import Path
from typing import Any

from tarmac.checks.given_gpus import judge_given
from tarmac.checks.pod_gpus import judge_pod
from tarmac.checks.report.model import Report
from tarmac.checks.verb import check
from tarmac.distribution import installed_version

# Bytes that Kubernetes keeps of a termination log (MaxContainerTerminationMessageLength).
_BYTES = 4096
_LONGEST_LINE = 300


def main() -> None:
    """Check the GPUs granted to this pod, or its CPU where it has no GPU."""
    num_gpus = int(sys.argv[1])
    report = check(depth="quick", devices=["cuda" if num_gpus else "cpu"])
    Path(sys.argv[2]).write_bytes(shorten(tell(report, num_gpus)))


def tell(report: Report, num_gpus: int) -> dict[str, Any]:
    """Return the answer of a quick check about a pod's node.

    Args:
        report: Report of a quick check in the pod.
        num_gpus: Number of GPUs granted to the pod; 0 for none.
    """
    # A pod without granted GPUs does not judge the GPUs that it may see.
    failures, unseen = judge_pod(report, num_gpus) if num_gpus else (judge_given(report, ())[0], [])
    names = collections.Counter(gpu.name or "GPU" for gpu in report.inventory.gpus)
    return {
        "python": platform.python_version(),
        "tarmac": installed_version(),
        "driver": report.inventory.driver.version or "",
        "gpus": dict(names) if num_gpus else {},
        "failures": [*map(_short, failures)],
        "unseen": [*map(_short, unseen)],
    }


def shorten(answer: dict[str, Any]) -> bytes:
    """Return an answer as JSON that fits into a termination log; count the lines left out."""
    lists = {name: answer[name] for name in ("failures", "unseen")}
    most = max(map(len, lists.values()))
    while len(written := json.dumps(answer, ensure_ascii=False).encode()) > _BYTES and most:
        most -= 1
        answer = answer | {name: _first(lines, most) for name, lines in lists.items()}
    return written


def _first(lines: list[str], most: int) -> list[str]:
    left_out = len(lines) - most
    return [*lines[:most], f"and {left_out} more"] if left_out > 0 else lines


def _short(line: str) -> str:
    words = " ".join(line.split())
    return words if len(words) <= _LONGEST_LINE else f"{words[: _LONGEST_LINE - 1]}…"


if __name__ == "__main__":
    main()
