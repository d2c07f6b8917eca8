"""Checks that every framework computes correctly and fast on every device, with fixes to type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.lazy import lazy_names

if TYPE_CHECKING:
    from tarmac.checks.cached import check_here as check_here
    from tarmac.checks.cached import quick_check as quick_check
    from tarmac.checks.frameworks import FRAMEWORKS as FRAMEWORKS
    from tarmac.checks.frameworks import Framework as Framework
    from tarmac.checks.frameworks import framework_names as framework_names
    from tarmac.checks.kernel_watch import KernelNews as KernelNews
    from tarmac.checks.kernel_watch import KernelWatch as KernelWatch
    from tarmac.checks.last import last_check_file as last_check_file
    from tarmac.checks.last import note_check as note_check
    from tarmac.checks.racing import Race as Race
    from tarmac.checks.racing import Racer as Racer
    from tarmac.checks.racing import race as race
    from tarmac.checks.ranked import Pair as Pair
    from tarmac.checks.ranked import Rank as Rank
    from tarmac.checks.ranked import Ranks as Ranks
    from tarmac.checks.ranks.verb import RanksChecked as RanksChecked
    from tarmac.checks.ranks.verb import check_ranks as check_ranks
    from tarmac.checks.reading.model import LogFinding as LogFinding
    from tarmac.checks.reading.model import LogReport as LogReport
    from tarmac.checks.reading.read import read_log as read_log
    from tarmac.checks.reading.tails import read_tails as read_tails
    from tarmac.checks.report.anonymous import without_names as without_names
    from tarmac.checks.report.devices import ProbedDevice as ProbedDevice
    from tarmac.checks.report.devices import describe_devices as describe_devices
    from tarmac.checks.report.expectation import Expectation as Expectation
    from tarmac.checks.report.fleet import Fleet as Fleet
    from tarmac.checks.report.fleet import compare_reports as compare_reports
    from tarmac.checks.report.forms import FORMS as FORMS
    from tarmac.checks.report.forms import Form as Form
    from tarmac.checks.report.model import Report as Report
    from tarmac.checks.report.model import Requirement as Requirement
    from tarmac.checks.report.model import Unseen as Unseen
    from tarmac.checks.report.model import Verdict as Verdict
    from tarmac.checks.report.nagios import UNKNOWN as UNKNOWN
    from tarmac.checks.report.nagios import render_nagios_error as render_nagios_error
    from tarmac.checks.report.stored import read_report as read_report
    from tarmac.checks.rules.catalogue import Failure as Failure
    from tarmac.checks.rules.catalogue import Level as Level
    from tarmac.checks.rules.catalogue import find_failure as find_failure
    from tarmac.checks.rules.catalogue import read_catalogue as read_catalogue
    from tarmac.checks.rules.findings import Finding as Finding
    from tarmac.checks.soak import SoakedDevice as SoakedDevice
    from tarmac.checks.soak import SoakProgress as SoakProgress
    from tarmac.checks.soaked import Soak as Soak
    from tarmac.checks.soaked import SoakedGpu as SoakedGpu
    from tarmac.checks.verb import check as check
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
