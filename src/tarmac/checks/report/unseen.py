"""What a check could not look at: silence of a driver or of a program is no good news."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.checks.report.model import Unseen
from tarmac.checks.rules import kernel
from tarmac.checks.rules.findings import find

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tarmac.checks.evidence import Evidence

# The finding that says so, where kernels' logs are looked at.
_LOG_UNREADABLE = "kernel-log-unreadable"

# What NVML says where there is no driver, and so no GPU that could be looked at: nvmlReturn_t's
# NVML_ERROR_LIBRARY_NOT_FOUND and NVML_ERROR_DRIVER_NOT_LOADED, in pynvml's words.
_ABSENT = ("Shared Library Not Found", "Driver Not Loaded")


def find_unseen(evidence: Evidence, *, only: Collection[str] = ()) -> tuple[Unseen, ...]:
    """Return what was to be looked at and did not answer.

    A machine without a driver has nothing to look at; a driver that is there and does not answer,
    a GPU that it cannot describe, and a probe that could not be started are something else. The
    kernel's log, which most users may not read, was to be looked at where its failures were named.

    Args:
        evidence: Everything that the check saw: inventory, probes and readings.
        only: Codes that are looked for alone.
    """
    return (*_unseen(evidence), *_unread_log(evidence, only))


def _unread_log(evidence: Evidence, only: Collection[str]) -> Iterator[Unseen]:
    if only and not kernel.RULES.keys().isdisjoint(only):
        for finding in find(evidence, only=(_LOG_UNREADABLE,)):
            yield Unseen(where="machine", why=f"{finding.title}: {finding.evidence}")


def is_silent(evidence: Evidence) -> bool:
    """Tell whether NVIDIA's driver is there and does not answer."""
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
