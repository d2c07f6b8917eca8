"""Checking: does every framework compute on every device, right and fast? Else what to type."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.checks.cached import check_here, quick_check
    from tarmac.checks.frameworks import FRAMEWORKS, Framework, framework_names
    from tarmac.checks.kernel_watch import KernelNews, KernelWatch
    from tarmac.checks.last import last_check_file, note_check
    from tarmac.checks.racing import Race, Racer, race
    from tarmac.checks.ranked import Pair, Rank, Ranks
    from tarmac.checks.ranks.verb import RanksChecked, check_ranks
    from tarmac.checks.reading.model import LogFinding, LogReport
    from tarmac.checks.reading.read import read_log
    from tarmac.checks.reading.tails import read_tails
    from tarmac.checks.report.anonymous import without_names
    from tarmac.checks.report.devices import ProbedDevice, describe_devices
    from tarmac.checks.report.expectation import Expectation
    from tarmac.checks.report.fleet import Fleet, compare_reports
    from tarmac.checks.report.forms import FORMS, Form
    from tarmac.checks.report.model import Report, Requirement, Unseen, Verdict
    from tarmac.checks.report.nagios import UNKNOWN, render_nagios_error
    from tarmac.checks.report.stored import read_report
    from tarmac.checks.rules.catalogue import Failure, Level, find_failure, read_catalogue
    from tarmac.checks.rules.findings import Finding
    from tarmac.checks.soak import SoakedDevice, SoakProgress
    from tarmac.checks.soaked import Soak, SoakedGpu
    from tarmac.checks.verb import check

__all__ = [
    "FORMS",
    "FRAMEWORKS",
    "UNKNOWN",
    "Expectation",
    "Failure",
    "Finding",
    "Fleet",
    "Form",
    "Framework",
    "KernelNews",
    "KernelWatch",
    "Level",
    "LogFinding",
    "LogReport",
    "Pair",
    "ProbedDevice",
    "Race",
    "Racer",
    "Rank",
    "Ranks",
    "RanksChecked",
    "Report",
    "Requirement",
    "Soak",
    "SoakProgress",
    "SoakedDevice",
    "SoakedGpu",
    "Unseen",
    "Verdict",
    "check",
    "check_here",
    "check_ranks",
    "compare_reports",
    "describe_devices",
    "find_failure",
    "framework_names",
    "last_check_file",
    "note_check",
    "quick_check",
    "race",
    "read_catalogue",
    "read_log",
    "read_report",
    "read_tails",
    "render_nagios_error",
    "without_names",
]

# Where a name is at home.
_MODULES = {
    "FORMS": "report.forms",
    "FRAMEWORKS": "frameworks",
    "UNKNOWN": "report.nagios",
    "Expectation": "report.expectation",
    "Failure": "rules.catalogue",
    "Finding": "rules.findings",
    "Fleet": "report.fleet",
    "Form": "report.forms",
    "Framework": "frameworks",
    "KernelNews": "kernel_watch",
    "KernelWatch": "kernel_watch",
    "last_check_file": "last",
    "note_check": "last",
    "Level": "rules.catalogue",
    "LogFinding": "reading.model",
    "LogReport": "reading.model",
    "Pair": "ranked",
    "ProbedDevice": "report.devices",
    "Race": "racing",
    "Racer": "racing",
    "Rank": "ranked",
    "Ranks": "ranked",
    "RanksChecked": "ranks.verb",
    "Report": "report.model",
    "Requirement": "report.model",
    "Soak": "soaked",
    "SoakProgress": "soak",
    "SoakedDevice": "soak",
    "SoakedGpu": "soaked",
    "Unseen": "report.model",
    "Verdict": "report.model",
    "check": "verb",
    "check_here": "cached",
    "check_ranks": "ranks.verb",
    "compare_reports": "report.fleet",
    "describe_devices": "report.devices",
    "find_failure": "rules.catalogue",
    "framework_names": "frameworks",
    "quick_check": "cached",
    "race": "racing",
    "read_catalogue": "rules.catalogue",
    "read_log": "reading.read",
    "read_report": "report.stored",
    "read_tails": "reading.tails",
    "render_nagios_error": "report.nagios",
    "without_names": "report.anonymous",
}


def __getattr__(name: str) -> object:
    """Import a module when a name of it is first used: a monitor needs few of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
