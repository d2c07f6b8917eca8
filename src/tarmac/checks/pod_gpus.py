"""Checks the GPUs granted to a pod: ``python -m tarmac.checks.pod_gpus COUNT``.

The init container of a Kubernetes pod runs it before the pod's program starts. The exit code is 0
where all GPUs are fit to compute on, and `tarmac.kubernetes.UNFIT` where one is not; the last line
then says why. Any other exit code means that no GPU was checked.
"""

from __future__ import annotations

import sys

from tarmac.checks.given_gpus import judge_given
from tarmac.checks.report.model import Report
from tarmac.checks.verb import check
from tarmac.kubernetes import UNFIT
from tarmac.machine import Gpu, MigDevice


def main() -> int:
    """Check the GPUs that this pod sees, and return the exit code."""
    failures, unseen = judge_pod(check(depth="quick", devices=["cuda"]), int(sys.argv[1]))
    for line in (*unseen, *reversed(failures)):
        print(line, file=sys.stderr)  # noqa: T201 - a container's log
    return UNFIT if failures else 0


def judge_pod(report: Report, num_gpus: int) -> tuple[list[str], list[str]]:
    """Return a quick check's failures of a pod's GPUs, and the parts that gave no answer.

    Args:
        report: Report of the check; a pod sees only its own GPUs.
        num_gpus: Number of GPUs granted to the pod; each MIG device counts as one.
    """
    parts: list[Gpu | MigDevice] = [
        part for gpu in report.inventory.gpus for part in (gpu.mig_devices or (gpu,))
    ]
    named = [part.uuid for part in parts if part.uuid is not None]
    failures, unseen = judge_given(report, named)
    if len(parts) < num_gpus:
        failures.insert(0, f"the driver shows {len(parts)} of {num_gpus} GPUs")
    return failures, unseen


if __name__ == "__main__":
    sys.exit(main())
