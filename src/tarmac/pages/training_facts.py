"""A training's record as markup: its request, its environment, and the check before it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from tarmac.checks import Report, read_report
from tarmac.errors import RequestError
from tarmac.files import Fields
from tarmac.masking import masked_command, masked_text
from tarmac.pages.components import chip, details, facts, flat, message, paragraph, pre, table
from tarmac.pages.numbers import worded
from tarmac.pages.page import Section
from tarmac.pages.redaction import without_secrets

if TYPE_CHECKING:
    from tarmac.runs import RunRecord

_ANSWERS = {"ok": "ok", "cpu only": "ok", "warning": "warn", "absent": "plain", "unknown": "warn"}
_LEVELS = {"failure": "bad", "warning": "warn", "note": "plain"}


def request(record: RunRecord) -> Markup:
    """Return the command and all settings of a training."""
    parts = []
    if record.command:
        parts.append(pre(shlex.join(masked_command([*record.command]))))
    else:
        parts.append(paragraph("It was started from Python."))
    configuration = {k: v for k, v in record.configuration.items() if k != "settings"}
    parts.append(facts(flat(without_secrets(configuration))))
    settings = record.configuration.get("settings")
    if isinstance(settings, dict) and settings:
        shown = facts(flat(without_secrets(settings)))
        parts.append(Markup("<h3>Settings of the workload</h3>") + shown)
    parts.append(Markup("<h3>Data</h3>") + facts(flat(without_secrets(record.dataset))))
    return Markup("").join(parts)


def environment(record: RunRecord) -> Markup:
    """Return the device, the versions and the source of a training."""
    device = dict(record.device)
    memory = device.pop("memory_bytes", None)
    pairs = [*flat(without_secrets(device)), ("memory", worded(memory, "bytes"))]
    parts = [facts(pairs)]
    if record.parallel is not None:
        parallel = record.parallel
        pairs = [
            ("strategy", parallel.strategy),
            ("devices", parallel.world_size),
            ("backend", parallel.backend),
        ]
        parts.append(Markup("<h3>Devices</h3>") + facts(pairs))
        if len(parallel.replicas) > 1:
            parts.append(
                table(
                    ["rank", "host", "device", "samples a second", "waited for others"],
                    [
                        [
                            str(replica.rank),
                            replica.host,
                            str(replica.device.get("name") or "-"),
                            worded(replica.samples_per_s),
                            worded(replica.waiting_s, "s"),
                        ]
                        for replica in parallel.replicas
                    ],
                    label="Ranks of the last session",
                    numbers=(0, 3, 4),
                )
            )
    parts.append(Markup("<h3>Versions</h3>") + facts(record.versions.items()))
    git = record.git
    source: list[tuple[str, object]] = [("seed", record.seed), ("run's id", record.id)]
    if git is not None:
        commit = git.commit + (", with changes that are in no commit" if git.dirty else "")
        source += [("commit", commit), ("branch", git.branch)]
    if record.uploaded_to:
        source.append(("copied to", masked_text(record.uploaded_to)))
    source += [(f"in {name}", masked_text(place)) for name, place in record.tracked.items()]
    parts.append(Markup("<h3>Source</h3>") + facts(source))
    return Markup("").join(parts)


def check_before(run: Path, began: datetime) -> Iterator[Section]:
    """Yield the section on the check before a training, if the run has a stored check.

    Args:
        run: Directory of the training, with ``check.json``.
        began: Time when the training began, UTC.
    """
    path = run / "check.json"
    if not path.is_file():
        return
    try:
        body = _check(read_report(path), began)
    except RequestError as error:
        body = message("warn", f"The check cannot be read: {error.message}")
    yield Section("check", "The check before it", body)


def _check(report: Report, began: datetime) -> Markup:
    parts = []
    checked_at = Fields({"at": report.checked_at}).moment("at")
    # One quick check serves all trainings of a boot, so it may be old.
    if checked_at is not None and checked_at < began:
        age = worded((began - checked_at).total_seconds(), "s")
        parts.append(paragraph(f"Checked {age} before the training began."))
    findings = [finding for finding in report.findings if finding.level != "note"]
    if findings:
        parts += [
            message(
                _LEVELS[finding.level],
                f"{finding.title} ({', '.join(finding.where)}): {finding.cause}",
                commands=finding.fix,
            )
            for finding in findings
        ]
    else:
        parts.append(message("ok", "Nothing was found that is wrong."))
    verdicts = [*report.devices, *report.frameworks]
    parts.append(
        table(
            ["what", "verdict", "why"],
            [
                [
                    verdict.name,
                    chip(verdict.answer, _ANSWERS.get(verdict.answer, "bad")),
                    verdict.text,
                ]
                for verdict in verdicts
            ],
            label="Devices and frameworks that were checked",
        )
    )
    host = report.inventory.host
    pairs = [("system", host.system), ("kernel", host.kernel), ("driver", report.driver or "none")]
    parts.append(
        details("check-machine", f"Checked at {report.checked_at}", facts(pairs)),
    )
    return Markup("").join(parts)
