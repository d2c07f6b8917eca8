"""Text output of `tarmac check`."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tarmac.cli.views.ranks import print_ranks
from tarmac.cli.views.soak import print_soak

if TYPE_CHECKING:
    from tarmac.checks import Failure, Finding, Fleet, Report, Verdict

_COLOURS = {
    "ok": "green",
    "cpu only": "green",
    "warning": "yellow",
    "failure": "red",
    "absent": "red",
    "unknown": "red",
    "note": "cyan",
}
_WORDS = {
    "ok": "ok",
    "cpu only": "cpu only",
    "warning": "warning",
    "failure": "FAILED",
    "absent": "MISSING",
    "unknown": "UNKNOWN",
    "note": "note",
}

_MET = {True: ("holds", "green"), False: ("FAILS", "red"), None: ("UNKNOWN", "red")}


def print_report(report: Report) -> None:
    """Print verdicts, requirements, fixes and notes."""
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
        _print_requirements(report)
    worth_doing = [finding for finding in report.findings if finding.level != "note"]
    if worth_doing:
        click.secho("What to do", bold=True)
        for number, finding in enumerate(worth_doing, 1):
            _print_finding(number, finding)
    _print_notes(report)
    click.echo(f"checked in {report.seconds:.1f} s")


def _print_requirements(report: Report) -> None:
    click.secho("Required", bold=True)
    for requirement in report.requirements:
        # A file may have many requirements: those that hold are only counted.
        if requirement.source and requirement.met and not requirement.better:
            continue
        word, colour = _MET[requirement.met]
        click.echo(f"  {click.style(f'{word:<8}', fg=colour)}  {requirement.text}", nl=False)
        click.echo(f"  (found {requirement.found})")
    _print_rest(report)


def _print_notes(report: Report) -> None:
    """Print notes, skipped findings and checks that could not be done."""
    for finding in report.findings:
        if finding.level == "note":
            click.echo(f"Note: {finding.title} ({', '.join(finding.where)}): {finding.fix[0]}")
    for finding in report.skipped:
        click.echo(f"Skipped: {finding.title} ({', '.join(finding.where)})  [{finding.code}]")
    if report.only:
        click.echo(f"Looked only for: {', '.join(report.only)}")
    for unseen in report.unseen:
        click.secho(f"Could not check: {unseen.where}: {unseen.why}", fg="red")


def _print_rest(report: Report) -> None:
    quiet = [r for r in report.requirements if r.source and r.met and not r.better]
    for source in dict.fromkeys(requirement.source for requirement in quiet):
        number = sum(requirement.source == source for requirement in quiet)
        click.echo(f"  {click.style('holds   ', fg='green')}  {number} of {source}")


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
    """Print the explanation of a failure."""
    if as_json:
        json.dump(failure.model_dump(mode="json"), sys.stdout, indent=2)
        click.echo()
        return
    click.secho(f"{failure.code}: {failure.title}", bold=True)
    click.echo("\n".join(textwrap.wrap(failure.general_cause, 92)))
    for line in failure.general_fix:
        click.echo(f"  {line}")
    if failure.in_container:
        click.echo("in a container:")
        for line in failure.general_fix_in_container:
            click.echo(f"  {line}")
    for message in failure.messages:
        click.echo(f"printed as: {message}")
    click.echo(f"source: {failure.source}")


def print_fleet(fleet: Fleet) -> None:
    """Print the differences between machines, a line for each item and odd machine."""
    odd, all_of = len(fleet.odd), len(fleet.machines)
    rows = [
        (difference.item if first else "", difference.usual if first else "", machine, value)
        for difference in fleet.differences
        for first, (machine, value) in zip(
            (True, *([False] * all_of)), difference.odd.items(), strict=False
        )
    ]
    if rows:
        table = [("", "most have", "", "has"), *rows]
        widths = [max(len(row[column]) for row in table) for column in range(3)]
        for number, row in enumerate(table):
            cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
            line = "  ".join((*cells, row[3])).rstrip()
            click.secho(line, bold=True) if number == 0 else click.echo(line)
    summary = f"different: {', '.join(fleet.odd)}" if odd else "none is different"
    click.echo(f"{odd} of {all_of} machines; {summary}; equal in {fleet.num_alike} properties")
