"""Checks the GPUs that a job was given: ``python -m tarmac.checks.given_gpus UUID...``.

The agent on a cluster's node asks before a task's program begins. The answer is one JSON object on
standard output: `failures`, for which the program is not to begin there, and `unseen`, what could
not be looked at; a line each.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from tarmac.checks.verb import check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.checks.report.model import Report
    from tarmac.checks.rules.findings import Finding
    from tarmac.machine import Gpu

# What PyTorch fails of by its own installation in Tarmac's environment; the program has its own.
_OF_INSTALLATIONS = frozenset(
    {
        *("torch-cpu-build", "import-failed", "library-missing", "numpy-abi", "nvjitlink"),
        *("driver-old", "ptx-unsupported", "arch-missing", "cudnn-version", "libdevice", "no-avx"),
    }
)


def main() -> None:
    """Check the GPUs that the arguments name, which are the only ones that programs see here."""
    # What libraries print is no part of the answer.
    answers = os.dup(1)
    os.dup2(2, 1)
    failures, unseen = judge_given(check(depth="quick", devices=["cuda"]), sys.argv[1:])
    with open(answers, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(json.dumps({"failures": failures, "unseen": unseen}) + "\n")


def judge_given(report: Report, given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what of a quick check speaks against GPUs, and what it has not seen of them.

    Other GPUs of the machine are other jobs' business. PyTorch that is not made for these says
    nothing of them; the driver's word is what is left then.

    Args:
        report: The check's, by a process that sees these GPUs alone.
        given: UUIDs of the GPUs, or of parts of them (MIG).
    """
    names = {gpu.label: _names(gpu) for gpu in report.inventory.gpus}
    others = {label for label, own in names.items() if own.isdisjoint(given)}
    shown = set().union(*names.values())
    failures = [f"the driver does not show {name}" for name in given if name not in shown]
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
    for each in report.unseen:
        if each.where not in others:
            # The silence of a driver is no good news; a probe that was not started says nothing.
            messages = unseen if each.where in _frameworks(report) else failures
            messages.append(f"{each.where}: {each.why}")
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
