"""Checking: does every framework compute on every device, right and fast? Else what to type."""

from __future__ import annotations

from tarmac.checks.cached import check_here, quick_check
from tarmac.checks.frameworks import FRAMEWORKS, Framework, framework_names
from tarmac.checks.kernel_log import KernelEvent, event_of_xid
from tarmac.checks.kernel_watch import KernelNews, KernelWatch
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
from tarmac.checks.report.page import render_page
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
    "KernelEvent",
    "KernelNews",
    "KernelWatch",
    "Level",
    "LogFinding",
    "LogReport",
    "Pair",
    "ProbedDevice",
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
    "event_of_xid",
    "find_failure",
    "framework_names",
    "quick_check",
    "read_catalogue",
    "read_log",
    "read_report",
    "read_tails",
    "render_nagios_error",
    "render_page",
    "without_names",
]
