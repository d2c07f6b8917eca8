"""What `tarmac check` prints for people."""

from __future__ import annotations

import json
import sys
import textwrap
from typing import TYPE_CHECKING

import click

from tarmac.cli.ranks_text import print_ranks
from tarmac.cli.soak_text import print_soak

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.checks import Failure, Finding, Report, Verdict

__all__ = ["print_failure", "print_report"]

_COLOURS = {
    "ok": "green",
    "cpu only": "green",
    "warning": "yellow",
    "failure": "red",
    "absent": "red",
    "note": "cyan",
}
_WORDS = {
    "ok": "ok",
    "cpu only": "cpu only",
    "warning": "warning",
    "failure": "FAILED",
    "absent": "MISSING",
    "note": "note",
}


def print_report(report: Report) -> None:
    """Print verdicts, requirements, what to do, and notes."""
    verdicts = [*report.devices, *report.frameworks]
    width = max(len(verdict.name) for verdict in verdicts)
    _print_verdicts("Devices", report.devices, width, behind=report.driver)
    _print_verdicts("Frameworks", report.frameworks, width)
    if not report.frameworks:
        click.echo("  none is installed in this Python; name another: tarmac check --python PATH")
    if report.ranks is not None:
        print_ranks(report.ranks)
    if report.soak is not None:
        print_soak(report.soak)
    if report.requirements:
        click.secho("Required", bold=True)
        for requirement in report.requirements:
            word, colour = ("holds", "green") if requirement.met else ("FAILS", "red")
            click.echo(f"  {click.style(f'{word:<8}', fg=colour)}  {requirement.text}", nl=False)
            click.echo(f"  (found {requirement.found})")
    worth_doing = [finding for finding in report.findings if finding.level != "note"]
    if worth_doing:
        click.secho("What to do", bold=True)
        for number, finding in enumerate(worth_doing, 1):
            _print_finding(number, finding)
    for finding in report.findings:
        if finding.level == "note":
            click.echo(f"Note: {finding.title} ({', '.join(finding.where)}): {finding.fix[0]}")
    click.echo(f"checked in {report.seconds:.1f} s")


def _print_verdicts(
    title: str, verdicts: Sequence[Verdict], width: int, *, behind: str = ""
) -> None:
    click.echo(f"{click.style(title, bold=True)}  {behind}".rstrip())
    for verdict in verdicts:
        word = click.style(f"{_WORDS[verdict.answer]:<8}", fg=_COLOURS[verdict.answer])
        click.echo(f"  {word}  {verdict.name:<{width}}  {verdict.text}")


def _print_finding(number: int, finding: Finding) -> None:
    head = click.style(finding.title, fg=_COLOURS[finding.level], bold=True)
    click.echo(f" {number:>2}. {head} ({', '.join(finding.where)})  [{finding.code}]")
    for line in textwrap.wrap(f"{finding.cause} Seen: {finding.evidence}", 92):
        click.echo(f"     {line}")
    for line in finding.fix:
        click.echo(f"       {click.style(line, bold=True)}")


def print_failure(failure: Failure, *, as_json: bool) -> None:
    """Print what is known of a failure."""
    if as_json:
        json.dump(failure.model_dump(mode="json"), sys.stdout, indent=2)
        click.echo()
        return
    click.secho(f"{failure.code}: {failure.title}", bold=True)
    click.echo("\n".join(textwrap.wrap(failure.general_cause, 92)))
    for line in failure.general_fix:
        click.echo(f"  {line}")
    for pattern in failure.text:
        click.echo(f"seen as: {pattern}")
    click.echo(f"source: {failure.source}")
