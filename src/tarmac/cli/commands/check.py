"""``tarmac check``: parse, call, render."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.checks import Failure, Finding, Report, Verdict

__all__ = ["command"]

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


@click.command("check", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("frameworks", nargs=-1, metavar="[FRAMEWORK]...")
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="PATH",
    help="Check what this interpreter has, instead of Tarmac's own; may be repeated.",
)
@click.option(
    "--image", "images", multiple=True, help="Check what a container image has; may be repeated."
)
@click.option(
    "--provision",
    multiple=True,
    metavar="NAME",
    help="Build an environment of pinned versions for a framework, once, and check that.",
)
@click.option("--quick", is_flag=True, help="The machine, and PyTorch alone; no rates.")
@click.option("--deep", is_flag=True, help="Measure longer, fill memory, all Keras backends.")
@click.option(
    "--device", "devices", multiple=True, show_default="all", help="cuda, cuda:INDEX or cpu."
)
@click.option(
    "--ranks",
    type=int,
    show_default="the number of GPUs",
    help="Processes that all-reduce, by PyTorch and Horovod; 2 or more.",
)
@click.option(
    "--require",
    multiple=True,
    metavar="WHAT",
    help="Exit with 1 unless it holds: gpus>=1, gpu_memory>=40, pytorch. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, and only that.")
@click.option(
    "--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write a page as well."
)
@click.option("--explain", metavar="CODE", help="Print what is known of a failure.")
@click.option("--names", is_flag=True, help="Leave user names and home directories in the report.")
@click.option(
    "--timeout",
    "timeout_s",
    type=float,
    default=120.0,
    show_default=True,
    help="Seconds for each framework.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    frameworks: Sequence[str],
    pythons: Sequence[str],
    images: Sequence[str],
    provision: Sequence[str],
    quick: bool,
    deep: bool,
    devices: Sequence[str],
    ranks: int | None,
    require: Sequence[str],
    as_json: bool,
    page: Path | None,
    explain: str | None,
    names: bool,
    timeout_s: float,
) -> None:
    """Prove that frameworks compute on this machine's devices; else say what is wrong.

    Exits with 0 when all that is required holds (without --require: when nothing failed), with 1
    when not, with 2 when the request was wrong.
    """
    from tarmac.checks import check, find_failure, render_page, without_names
    from tarmac.errors import RequestError
    from tarmac.files import write_text

    if explain is not None:
        _print_explanation(find_failure(explain), as_json=as_json)
        return
    if quick and deep:
        raise RequestError("--quick and --deep exclude each other")
    report = check(
        frameworks,
        pythons=pythons,
        images=images,
        provision=provision,
        depth="quick" if quick else "deep" if deep else "normal",
        devices=devices,
        ranks=ranks,
        require=require,
        timeout_s=timeout_s,
    )
    if not names:
        report = without_names(report, os.environ)
    if page is not None:
        write_text(page, render_page(report))
    if as_json:
        # By the model, which writes null for a number that is none: JSON has no NaN.
        facts = json.loads(report.model_dump_json())
        click.echo(json.dumps({"ok": report.ok, **facts}, indent=2))
    else:
        _print(report)
        if page is not None:
            click.echo(f"page {page}")
    ctx.exit(0 if report.ok else 1)


def _print(report: Report) -> None:
    verdicts = [*report.devices, *report.frameworks]
    width = max(len(verdict.name) for verdict in verdicts)
    _print_verdicts("Devices", report.devices, width, behind=report.driver)
    _print_verdicts("Frameworks", report.frameworks, width)
    if not report.frameworks:
        click.echo("  none is installed in this Python; name another: tarmac check --python PATH")
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


def _print_explanation(failure: Failure, *, as_json: bool) -> None:
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
