"""The parts of a machine that gave no answer to a check, which is never a success."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tarmac.checks.evidence import Evidence
from tarmac.checks.report.model import Unseen
from tarmac.checks.rules import kernel
from tarmac.checks.rules.findings import find

# Code of the finding that the kernel's log could not be read.
_LOG_UNREADABLE = "kernel-log-unreadable"

# NVML's errors where no driver is present, and so no GPU to check: NVML_ERROR_LIBRARY_NOT_FOUND and
# NVML_ERROR_DRIVER_NOT_LOADED of nvmlReturn_t, as pynvml words them.
_ABSENT = ("Shared Library Not Found", "Driver Not Loaded")


def find_unseen(evidence: Evidence, *, only: Collection[str] = ()) -> tuple[Unseen, ...]:
    """Return the parts of the machine that should have been checked and gave no answer.

    These are a driver that does not answer, a GPU that the driver cannot describe, and a probe that
    could not be started. A machine without a driver has nothing to check. Most users may not read
    the kernel's log, so it counts only where ``only`` names one of its failures.

    Args:
        evidence: Everything that the check saw: inventory, probes and readings.
        only: Codes of the only failures to look for; empty for all.
    """
    return (*_unseen(evidence), *_unread_log(evidence, only))


def _unread_log(evidence: Evidence, only: Collection[str]) -> Iterator[Unseen]:
    if only and not kernel.RULES.keys().isdisjoint(only):
        for finding in find(evidence, only=(_LOG_UNREADABLE,)):
            yield Unseen(where="machine", why=f"{finding.title}: {finding.evidence}")


def is_silent(evidence: Evidence) -> bool:
    """Return whether NVIDIA's driver is present and does not answer."""
    error = evidence.inventory.driver.nvml_error
    return error is not None and not any(words in error for words in _ABSENT)


def _unseen(evidence: Evidence) -> Iterator[Unseen]:
    if is_silent(evidence):
        error = evidence.inventory.driver.nvml_error
        yield Unseen(where="machine", why=f"the driver does not answer: {error}")
    for gpu in evidence.inventory.gpus:
        if gpu.error is not None:
            yield Unseen(where=gpu.label, why=f"it does not answer: {gpu.error}")
    for probe in evidence.probes:
        if probe.outcome == "not started":
            yield Unseen(where=probe.label, why=f"its probe could not be started: {probe.detail}")
