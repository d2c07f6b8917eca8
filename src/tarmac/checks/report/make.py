"""From evidence to a report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tarmac.checks.report.model import Report
from tarmac.checks.report.verdicts import judge_devices, judge_framework
from tarmac.checks.rules.findings import find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.checks.evidence import Evidence
    from tarmac.checks.report.requirements import Condition

__all__ = ["make_report"]


def make_report(
    evidence: Evidence,
    *,
    requirements: Sequence[Condition] = (),
    seconds: float,
) -> Report:
    """Conclude from what was seen.

    Args:
        evidence: All of it.
        requirements: From `parse_requirements`.
        seconds: The whole check took.
    """
    findings = find(evidence)
    frameworks = tuple(judge_framework(probe, evidence, findings) for probe in evidence.probes)
    return Report(
        checked_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        devices=judge_devices(evidence, findings),
        frameworks=frameworks,
        findings=findings,
        requirements=tuple(requirement(evidence, frameworks) for requirement in requirements),
        inventory=evidence.inventory,
        probes=evidence.probes,
        seconds=seconds,
        soak=evidence.soak,
        ranks=evidence.ranks,
    )
