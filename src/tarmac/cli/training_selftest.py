"""``tarmac train WORKLOAD --selftest``: the checks of a workload, and their results."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from tarmac.errors import RequestError, TarmacError
from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.testing.selftest import Finding

_WORDS = {True: ("held", "green"), False: ("FAILED", "red"), None: ("not tried", "yellow")}


def run_selftest(workload: str | None, settings: Mapping[str, str], *, as_json: bool) -> None:
    """Print a line for each check when it is done, or all of them as JSON.

    Args:
        workload: Workload as the command line names it. None is refused.
        settings: Values of ``--set``, by the name of the setting.
        as_json: Whether to print JSON only.

    Raises:
        RequestError: No workload is named, or its data are too few.
        TarmacError: A check failed, or could not be tried.
    """
    if workload is None:
        raise RequestError("--selftest names no workload", hint="tarmac train NAME --selftest")
    from tarmac.testing.selftest import selftest

    report = selftest(workload, settings=settings, on_finding=None if as_json else _say)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(report) | {"passed": report.passed}, indent=2))
    if not report.passed:
        wanting = [
            finding.name for finding in report.findings if not (finding.held or finding.refused)
        ]
        raise TarmacError(
            f"{report.workload} did not pass: {', '.join(wanting)}",
            hint="See docs/own-workload.md, section Tests.",
        )
    if not as_json:
        click.echo(f"{report.workload} passed on {counted(report.num_samples, 'sample')}")


def _say(finding: Finding) -> None:
    word, colour = ("refused", "yellow") if finding.refused else _WORDS[finding.held]
    click.echo(f"{finding.name:<8} {click.style(f'{word:<9}', fg=colour)} {finding.tried}")
    if finding.detail:
        click.echo(click.wrap_text(finding.detail, 99, " " * 19, " " * 19))
