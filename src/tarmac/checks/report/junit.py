"""A report as JUnit XML, which CI systems show as tests."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.checks.report.model import Report, Verdict
    from tarmac.checks.rules.findings import Finding

# Characters that XML 1.0 cannot hold, escaped or not; frameworks print some of them.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(report: Report) -> str:
    """Return the document: a test case for each device, framework, requirement and skipped code.

    A finding that fails the check is a ``failure`` of its device's or framework's case. A part
    without an answer is an ``error``. Other findings are in the case's ``system-out``.
    """
    cases = [*_cases(report)]
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
        "skipped": str(sum(case.find("skipped") is not None for case in cases)),
        "time": f"{report.seconds:.3f}",
    }
    suites = ET.Element("testsuites", {"name": "tarmac check", **counts})
    suite = ET.SubElement(
        suites,
        "testsuite",
        {"name": "tarmac check", **counts, "timestamp": report.checked_at.removesuffix("Z")},
    )
    suite.extend(cases)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _cases(report: Report) -> Iterator[ET.Element]:
    left = list(report.findings)
    for kind, verdicts in (("devices", report.devices), ("frameworks", report.frameworks)):
        for verdict in verdicts:
            here = [finding for finding in left if _is_at(finding, verdict)]
            yield _of_verdict(report, kind, verdict, here)
    seen = {id(f) for v in (*report.devices, *report.frameworks) for f in left if _is_at(f, v)}
    elsewhere = [finding for finding in left if id(finding) not in seen]
    unseen = [u for u in report.unanswered if u.where == "machine"]
    machine = _case("machine", "machine")
    if unseen and not any(finding in report.failing for finding in elsewhere):
        _add(machine, "error", "; ".join(u.why for u in unseen), "unseen")
    yield _with_findings(machine, report, elsewhere)
    for requirement in report.requirements:
        case = _case("required", requirement.text)
        if requirement.met is False:
            _add(case, "failure", f"found {requirement.found}", "requirement")
        elif requirement.met is None:
            _add(case, "error", f"could not be checked: {requirement.found}", "requirement")
        yield case
    for finding in report.skipped:
        case = _case("skipped", finding.code)
        _add(case, "skipped", f"{finding.title} ({', '.join(finding.where)})")
        yield case


def _of_verdict(
    report: Report, kind: str, verdict: Verdict, findings: Sequence[Finding]
) -> ET.Element:
    case = _case(kind, verdict.name)
    unseen = [u for u in report.unanswered if u.where == verdict.name]
    if verdict in report.broken:
        _add(case, "failure", verdict.text, verdict.answer)
    elif unseen and not any(finding in report.failing for finding in findings):
        _add(case, "error", "; ".join(u.why for u in unseen), "unseen")
    return _with_findings(case, report, findings)


def _with_findings(case: ET.Element, report: Report, findings: Sequence[Finding]) -> ET.Element:
    failing = [finding for finding in findings if finding in report.failing]
    # One outcome for each case: strict readers refuse more.
    if failing and len(case) == 0:
        title = "; ".join(finding.title for finding in failing)
        _add(case, "failure", title, failing[0].code, "\n\n".join(map(_in_full, failing)))
    others = [finding for finding in findings if finding not in report.failing]
    if others:
        ET.SubElement(case, "system-out").text = _clean("\n\n".join(map(_in_full, others)))
    return case


def _in_full(finding: Finding) -> str:
    fix = "\n".join(f"  {line}" for line in finding.fix)
    where = ", ".join(finding.where)
    return (
        f"{finding.level}: {finding.title} ({where}) [{finding.code}]\n"
        f"{finding.cause} Seen: {finding.evidence}\n{fix}\n{finding.source}"
    )


def _is_at(finding: Finding, verdict: Verdict) -> bool:
    name = verdict.name
    return any(place == name or place.startswith(f"{name} on ") for place in finding.where)


def _case(kind: str, name: str) -> ET.Element:
    return ET.Element(
        "testcase", {"classname": f"tarmac.check.{kind}", "name": _clean(name), "time": "0"}
    )


def _add(case: ET.Element, outcome: str, message: str, kind: str = "", text: str = "") -> None:
    attributes = {"message": _clean(message)}
    if kind:
        attributes["type"] = kind
    ET.SubElement(case, outcome, attributes).text = _clean(text) or None


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
