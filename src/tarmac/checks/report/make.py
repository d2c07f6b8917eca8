"""Makes a report from evidence."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tarmac.checks.evidence import Evidence
from tarmac.checks.report.model import Report
from tarmac.checks.report.unseen import find_unseen
from tarmac.checks.report.verdicts import judge_devices, judge_framework
from tarmac.checks.rules.catalogue import Level
from tarmac.checks.rules.findings import find

if TYPE_CHECKING:
    from tarmac.checks.report.requirements import Condition


def make_report(
    evidence: Evidence,
    *,
    requirements: Sequence[Condition] = (),
    fail_on: Level | None = "failure",
    only: Collection[str] = (),
    skip: Collection[str] = (),
    seconds: float,
) -> Report:
    """Return the report of a check's evidence.

    Args:
        evidence: Everything that the check saw: inventory, probes and readings.
        requirements: Conditions that have to hold.
        fail_on: Lowest level of findings that fail the check; None where only requirements do.
        only: Codes of the only failures to look for; empty for all.
        skip: Codes of failures that are reported and do not count.
        seconds: Seconds that the whole check took.
    """
    all_findings = find(evidence, only=only)
    # Skipped after causes have hidden their consequences: a skipped cause covers those too.
    findings = tuple(finding for finding in all_findings if finding.code not in skip)
    frameworks = tuple(judge_framework(probe, evidence, findings) for probe in evidence.probes)
    return Report(
        checked_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        devices=judge_devices(evidence, findings),
        frameworks=frameworks,
        findings=findings,
        requirements=tuple(requirement(evidence, frameworks) for requirement in requirements),
        fail_on=fail_on,
        only=tuple(only),
        skipped=tuple(finding for finding in all_findings if finding.code in skip),
        unseen=find_unseen(evidence, only=only),
        inventory=evidence.inventory,
        probes=evidence.probes,
        under_load=evidence.under_load,
        seconds=seconds,
        soak=evidence.soak,
        ranks=evidence.ranks,
    )
