"""The page of a check: verdicts, findings and commands that fix them, to attach to a ticket."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from tarmac.pages.components import Tile, chip, details, message, paragraph, pre, table, tiles
from tarmac.pages.numbers import UNKNOWN, worded
from tarmac.pages.page import Page, Section

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tarmac.checks import Finding, Report, Requirement, Verdict

_STATES = {"ok": "ok", "cpu only": "ok", "warning": "warn"}
_LEVELS = {"failure": "bad", "warning": "warn", "note": "plain"}
_MET = {True: ("ok", "holds"), False: ("bad", "fails"), None: ("bad", "unknown")}
_VERDICTS = {0: ("ok", "holds"), 1: ("bad", "fails"), 3: ("warn", "unknown")}


def check_page(report: Report) -> Page:
    """Return the page of a check.

    Args:
        report: Report of the check. The caller removes user names with `without_names` where
            required.
    """
    state, word = _VERDICTS[report.exit_code]
    host = report.inventory.host
    return Page(
        title=f"tarmac check: {_verdict(report)}",
        subtitle=f"{host.system}, kernel {host.kernel}; {report.driver or 'no NVIDIA driver'}; "
        f"checked at {report.checked_at} in {report.seconds:.1f} s",
        status=word,
        state=state,
        head=_tiles(report),
        sections=[*_sections(report)],
    )


def _verdict(report: Report) -> str:
    if not report.ok:
        return "Something is wrong"
    count = sum(finding.level != "note" for finding in report.findings)
    return f"All requirements hold; {count} to look at" if count else "All is well"


def _tiles(report: Report) -> Markup:
    works = sum(verdict.answer in ("ok", "cpu only") for verdict in report.frameworks)
    failures = sum(finding.level == "failure" for finding in report.findings)
    warnings = sum(finding.level == "warning" for finding in report.findings)
    return tiles(
        [
            Tile("Devices", f"{len(report.devices)}"),
            Tile("Frameworks that work", f"{works} of {len(report.frameworks)}"),
            Tile("Failures", f"{failures}", state="bad" if failures else "ok"),
            Tile("Warnings", f"{warnings}", state="warn" if warnings else "plain"),
            Tile("Took", worded(report.seconds, "s")),
        ]
    )


def _sections(report: Report) -> Iterator[Section]:
    if report.findings:
        yield Section("findings", "What to do", _findings(report.findings))
    yield Section("devices", "Devices", _verdicts(report.devices, "Devices"))
    yield Section("frameworks", "Frameworks", _verdicts(report.frameworks, "Frameworks"))
    if report.requirements:
        yield Section("required", "Required", _requirements(report.requirements))
    if report.unseen:
        rows = [[place.where, place.why] for place in report.unseen]
        body = table(["where", "why"], rows, label="No answer")
        yield Section("unseen", "No answer", body)
    if report.skipped:
        note = "Found, but skipped as requested."
        yield Section("skipped", "Skipped", _findings(report.skipped, "skipped"), note)
    if report.under_load:
        yield Section("load", "GPUs under load", _load(report))
    yield Section("evidence", "Evidence", _evidence(report))


def _verdicts(verdicts: Sequence[Verdict], label: str) -> Markup:
    if not verdicts:
        return paragraph("None.")
    rows = [
        [verdict.name, chip(verdict.answer, _STATES.get(verdict.answer, "bad")), verdict.text]
        for verdict in verdicts
    ]
    return table(["what", "answer", "why"], rows, label=label)


def _requirements(requirements: Sequence[Requirement]) -> Markup:
    rows = [
        [
            requirement.text,
            chip(_MET[requirement.met][1], _MET[requirement.met][0]),
            f"found {requirement.found}",
            requirement.source or "-",
        ]
        for requirement in requirements
    ]
    return table(["asked", "answer", "found", "asked by"], rows, label="What was required")


def _findings(findings: Sequence[Finding], key: str = "finding") -> Markup:
    body = Markup("")
    for number, finding in enumerate(findings):
        where = ", ".join(finding.where)
        head = Markup("<strong>{}</strong> ({}) <code>{}</code>").format(
            finding.title, where, finding.code
        )
        body += message(_LEVELS.get(finding.level, "plain"), head, commands=finding.fix)
        source = finding.source
        link = (
            Markup('<p><a href="{}">source</a></p>').format(source)
            if source.startswith("https://")
            else paragraph(source)
        )
        why = paragraph(finding.cause) + paragraph(f"Seen: {finding.evidence}") + link
        body += details(f"{key}-{number}", "Why", why)
    return body


def _load(report: Report) -> Markup:
    rows = [
        [
            f"GPU {gpu.index}",
            worded(gpu.sm_clock_mhz.get("median"), "MHz"),
            worded(gpu.sm_clock_mhz.get("lowest"), "MHz"),
            worded(gpu.temperature_c, "°C"),
            worded(gpu.power_watts, "W"),
            ", ".join(
                f"{name.replace('_', ' ')} {worded(share, 'ratio')}"
                for name, share in gpu.reasons.items()
            )
            or UNKNOWN,
        ]
        for gpu in report.under_load
    ]
    columns = ["GPU", "clock, median", "lowest", "hottest", "most power", "held back by"]
    return table(columns, rows, label="GPUs under load", numbers=(1, 2, 3, 4))


def _evidence(report: Report) -> Markup:
    facts: list[tuple[str, BaseModel | None]] = [("The machine", report.inventory)]
    facts += [(probe.label, probe) for probe in report.probes]
    facts += [("The soak", report.soak), ("The ranks", report.ranks)]
    return Markup("").join(
        details(f"evidence-{number}", title, _json(model))
        for number, (title, model) in enumerate(facts)
        if model is not None
    )


def _json(facts: BaseModel) -> Markup:
    return pre(json.dumps(facts.model_dump(mode="json"), indent=2, ensure_ascii=False))
