"""A report as one page that needs nothing else, to attach to a ticket."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import BaseModel

    from tarmac.checks.report.model import Report, Verdict
    from tarmac.checks.rules.findings import Finding

__all__ = ["render_page"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
       color: #1d2733; background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% }
td { padding: .35rem .6rem; border-bottom: 1px solid #e3e8ee; vertical-align: top }
.word { font-weight: 600; white-space: nowrap; width: 6rem }
.ok { color: #17693b } .warning { color: #8a5a00 }
.failure { color: #b3261e } .note { color: #42526b }
pre { background: #f4f6f8; padding: .6rem; overflow-x: auto; border-radius: 4px }
details { margin: .5rem 0 }
"""

_MET = {True: ("ok", "holds"), False: ("failure", "fails"), None: ("failure", "unknown")}

_CLASSES = {"ok": "ok", "cpu only": "ok", "warning": "warning", "failure": "failure"}


def render_page(report: Report) -> str:
    """Return the page's HTML."""
    verdict = "Something is wrong"
    if report.ok:
        count = sum(finding.level != "note" for finding in report.findings)
        verdict = f"What is required holds; {count} to look at" if count else "All is well"
    driver = report.driver or "no NVIDIA driver"
    body = "\n".join(
        (
            f"<h1>tarmac check: {verdict}</h1>",
            f"<p>{escape(report.inventory.host.system)}, kernel "
            f"{escape(report.inventory.host.kernel)}; {escape(driver)}; "
            f"checked at {report.checked_at} in {report.seconds:.1f} s</p>",
            *_table("Devices", report.devices),
            *_table("Frameworks", report.frameworks),
            *_requirements(report),
            *_findings(report.findings),
            "<h2>Evidence</h2>",
            _details("The machine", report.inventory),
            *(_details(probe.label, probe) for probe in report.probes),
            *([_details("The soak", report.soak)] if report.soak is not None else ()),
            *([_details("The ranks", report.ranks)] if report.ranks is not None else ()),
        )
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>tarmac check</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _details(title: str, facts: BaseModel) -> str:
    text = escape(json.dumps(facts.model_dump(mode="json"), indent=2))
    return f"<details><summary>{escape(title)}</summary><pre>{text}</pre></details>"


def _table(title: str, verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield f"<h2>{title}</h2><table>"
    for verdict in verdicts:
        kind = _CLASSES.get(verdict.answer, "failure")
        yield (
            f'<tr><td class="word {kind}">{verdict.answer}</td><td>{escape(verdict.name)}</td>'
            f"<td>{escape(verdict.text)}</td></tr>"
        )
    yield "</table>"


def _requirements(report: Report) -> Iterator[str]:
    if report.requirements:
        yield "<h2>Required</h2><table>"
        for requirement in report.requirements:
            kind, word = _MET[requirement.met]
            yield (
                f'<tr><td class="word {kind}">{word}</td><td>{escape(requirement.text)}</td>'
                f"<td>found {escape(requirement.found)}</td></tr>"
            )
        yield "</table>"


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    if findings:
        yield "<h2>What to do</h2><ol>"
        for finding in findings:
            fix, where = escape("\n".join(finding.fix)), escape(", ".join(finding.where))
            yield (
                f'<li><b class="{finding.level}">{escape(finding.title)}</b> '
                f"({where}) <code>{finding.code}</code><br>{escape(finding.cause)}"
                f"<br>Seen: {escape(finding.evidence)}<pre>{fix}</pre>"
                f'<a href="{escape(finding.source)}">source</a></li>'
            )
        yield "</ol>"
