"""Checking: does every framework compute on every device, right and fast? Else what to type."""

from __future__ import annotations

from tarmac.checks.cached import quick_check
from tarmac.checks.frameworks import FRAMEWORKS
from tarmac.checks.report.model import Report, Requirement, Verdict
from tarmac.checks.rules.catalogue import Failure, find_failure, read_catalogue
from tarmac.checks.rules.findings import Finding
from tarmac.checks.verb import check

__all__ = [
    "FRAMEWORKS",
    "Failure",
    "Finding",
    "Report",
    "Requirement",
    "Verdict",
    "check",
    "find_failure",
    "quick_check",
    "read_catalogue",
]
