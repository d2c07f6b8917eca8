"""Output of `tarmac check --read`, as text and as JSON."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

import click

from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.checks import LogFinding, LogReport

_COLOURS = {"failure": "red", "warning": "yellow", "note": "cyan"}


def print_log_report(report: LogReport, *, as_json: bool) -> None:
    """Print the findings in a log, most important first, and the number of lines read."""
    if as_json:
        click.echo(json.dumps({"ok": report.ok, **report.model_dump(mode="json")}, indent=2))
        return
    for number, finding in enumerate(report.findings, 1):
        _print_finding(number, finding)
    counts = {
        level: sum(finding.level == level for finding in report.findings) for level in _COLOURS
    }
    parts = [
        counted(counts["failure"], "failure"),
        *(counted(counts[level], level) for level in ("warning", "note") if counts[level]),
    ]
    click.echo(f"read {counted(report.num_lines, 'line')}; {', '.join(parts)} found")


def _print_finding(number: int, finding: LogFinding) -> None:
    head = click.style(finding.title, fg=_COLOURS[finding.level], bold=True)
    level = "" if finding.level == "failure" else f" ({finding.level})"
    click.echo(f" {number:>2}. {head}{level}  [{finding.code}]")
    prefix = f" {finding.said}:" if finding.said else ""
    click.echo(f"     {_where(finding)}:{prefix} {finding.text}")
    for line in textwrap.wrap(finding.cause, 92):
        click.echo(f"     {line}")
    for line in finding.fix:
        click.echo(f"       {click.style(line, bold=True)}")


def _where(finding: LogFinding) -> str:
    if finding.count == 1:
        return f"line {finding.first_line}"
    return f"lines {finding.first_line} to {finding.last_line}, {finding.count} times"
