"""Checking: does every framework compute on every device, right and fast? Else what to type."""

from __future__ import annotations

from tarmac.checks.cached import check_here, quick_check
from tarmac.checks.frameworks import FRAMEWORKS, Framework, framework_names
from tarmac.checks.ranked import Pair, Rank, Ranks
from tarmac.checks.ranks.verb import RanksChecked, check_ranks
from tarmac.checks.report.anonymous import without_names
from tarmac.checks.report.model import Report, Requirement, Verdict
from tarmac.checks.report.page import render_page
from tarmac.checks.rules.catalogue import Failure, find_failure, read_catalogue
from tarmac.checks.rules.findings import Finding
from tarmac.checks.soak import SoakedDevice, SoakProgress
from tarmac.checks.soaked import Soak, SoakedGpu
from tarmac.checks.verb import check

__all__ = [
    "FRAMEWORKS",
    "Failure",
    "Finding",
    "Framework",
    "Pair",
    "Rank",
    "Ranks",
    "RanksChecked",
    "Report",
    "Requirement",
    "Soak",
    "SoakProgress",
    "SoakedDevice",
    "SoakedGpu",
    "Verdict",
    "check",
    "check_here",
    "check_ranks",
    "find_failure",
    "framework_names",
    "quick_check",
    "read_catalogue",
    "render_page",
    "without_names",
]
