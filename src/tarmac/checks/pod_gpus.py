"""Checks the GPUs that a pod was given: ``python -m tarmac.checks.pod_gpus COUNT``.

The init container of a pod on Kubernetes runs it before the pod's program begins. It ends with
`tarmac.kubernetes.UNFIT` where a GPU is not fit to compute on, and its last line says why;
with 0 where all are. Any other exit code says that nothing was looked at.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tarmac.checks.given_gpus import judge_given
from tarmac.checks.verb import check
from tarmac.kubernetes import UNFIT

if TYPE_CHECKING:
    from tarmac.checks.report.model import Report
    from tarmac.machine import Gpu, MigDevice


def main() -> int:
    """Check the GPUs that this pod sees; return the exit code."""
    failures, unseen = judge_pod(check(depth="quick", devices=["cuda"]), int(sys.argv[1]))
    for line in (*unseen, *reversed(failures)):
        print(line, file=sys.stderr)  # noqa: T201 - a container's log
    return UNFIT if failures else 0


def judge_pod(report: Report, asked: int) -> tuple[list[str], list[str]]:
    """Return what of a quick check speaks against a pod's GPUs, and what it has not seen of them.

    Args:
        report: The check's; a pod sees its own GPUs alone.
        asked: So many it was given, parts of GPUs (MIG) counted each.
    """
    parts: list[Gpu | MigDevice] = [
        part for gpu in report.inventory.gpus for part in (gpu.mig_devices or (gpu,))
    ]
    named = [part.uuid for part in parts if part.uuid is not None]
    failures, unseen = judge_given(report, named)
    if len(parts) < asked:
        failures.insert(0, f"the driver shows {len(parts)} of {asked} GPUs")
    return failures, unseen


if __name__ == "__main__":
    sys.exit(main())
