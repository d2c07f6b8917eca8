"""Checks the GPUs granted to a job: ``python -m tarmac.checks.given_gpus UUID...``.

The agent on a cluster's node runs it before a task's program starts. The answer is one JSON object
on standard output. ``failures`` are reasons not to start the program there, and ``unseen`` are the
parts that gave no answer, a line each.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from tarmac.checks.report.model import Report
from tarmac.checks.rules.findings import Finding
from tarmac.checks.verb import check
from tarmac.machine import Gpu

# Failures of the PyTorch installed in Tarmac's environment; the job's program has its own PyTorch.
_OF_INSTALLATIONS = frozenset(
    {
        *("torch-cpu-build", "import-failed", "library-missing", "numpy-abi", "nvjitlink"),
        *("driver-old", "ptx-unsupported", "arch-missing", "cudnn-version", "libdevice", "no-avx"),
    }
)


def main() -> None:
    """Check the GPUs named by the arguments; programs see no others here."""
    # Redirect the output of libraries, which must not mix with the answer.
    answers = os.dup(1)
    os.dup2(2, 1)
    failures, unseen = judge_given(check(depth="quick", devices=["cuda"]), sys.argv[1:])
    with open(answers, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(json.dumps({"failures": failures, "unseen": unseen}) + "\n")


def judge_given(report: Report, uuids: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a quick check's failures of GPUs, and the parts of them that gave no answer.

    Findings of other GPUs of the machine are left out: those belong to other jobs. Where Tarmac's
    own PyTorch cannot run on these GPUs, only the driver judges them.

    Args:
        report: Report of a check by a process that sees only these GPUs.
        uuids: UUIDs of the GPUs, or of their MIG devices.
    """
    names = {gpu.label: _names(gpu) for gpu in report.inventory.gpus}
    others = {label for label, own in names.items() if own.isdisjoint(uuids)}
    shown = set().union(*names.values())
    failures = [f"the driver does not show {name}" for name in uuids if name not in shown]
    unseen = []
    for finding in report.findings:
        if finding.level != "failure" or others.issuperset(finding.where):
            continue
        if finding.code in _OF_INSTALLATIONS:
            unseen.append(f"nothing was computed there: {_words(finding)}")
        else:
            failures.append(_words(finding))
    if not report.probes:
        unseen.append("nothing was computed there: PyTorch is not in Tarmac's environment")
    for gap in report.unseen:
        if gap.where not in others:
            # No answer of the driver counts as a failure; a probe that was not started does not.
            messages = unseen if gap.where in _frameworks(report) else failures
            messages.append(f"{gap.where}: {gap.why}")
    return failures, unseen


def _names(gpu: Gpu) -> set[str]:
    names = (gpu.uuid, *(part.uuid for part in gpu.mig_devices))
    return {name for name in names if name is not None}


def _frameworks(report: Report) -> set[str]:
    return {probe.label for probe in report.probes}


def _words(finding: Finding) -> str:
    where = ", ".join(finding.where)
    return f"{finding.title} ({where}): {finding.evidence}"


if __name__ == "__main__":
    main()
