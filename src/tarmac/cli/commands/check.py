"""``tarmac check``: parse, call, render."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup

from tarmac.cli.choices import FRAMEWORKS
from tarmac.cli.completion import complete_files, complete_frameworks
from tarmac.cli.options import count_option, examples, json_option, option

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


@cloup.command(
    "check",
    epilog=examples(
        "tarmac check",
        "tarmac check torch jax",
        "tarmac check --python ~/venvs/jax/bin/python",
        "tarmac check --provision tensorflow",
        "tarmac check --quick --require 'gpus>=8' --require 'gpu_memory>=80' --json",
        "tarmac check --explain no-driver",
    ),
)
@cloup.argument(
    "frameworks",
    nargs=-1,
    metavar="[FRAMEWORK]...",
    shell_complete=complete_frameworks,
    help=f"Of {', '.join(FRAMEWORKS)}; those that are installed if none is named.",
)
@cloup.option_group(
    "What is checked",
    option(
        "--python",
        "pythons",
        multiple=True,
        metavar="PATH",
        shell_complete=complete_files,
        help="Check what this interpreter has, instead of Tarmac's own; may be repeated.",
    ),
    option(
        "--image",
        "images",
        multiple=True,
        metavar="IMAGE",
        help="Check what a container image has; may be repeated.",
    ),
    option(
        "--provision",
        multiple=True,
        metavar="FRAMEWORK",
        shell_complete=complete_frameworks,
        help="Build an environment of pinned versions for a framework, once, and check that; may "
        "be repeated.",
    ),
    option(
        "--device",
        "devices",
        multiple=True,
        metavar="DEVICE",
        show_default="all",
        help="cuda, cuda:INDEX or cpu; may be repeated.",
    ),
)
@cloup.option_group(
    "How thoroughly",
    option("--quick", is_flag=True, help="The machine, and PyTorch alone; no rates."),
    option("--deep", is_flag=True, help="Measure longer, fill memory, all Keras backends."),
    count_option(
        "--ranks",
        show_default="the number of GPUs",
        help="Processes that add numbers up together, by PyTorch and Horovod; 2 or more.",
    ),
    option(
        "--timeout",
        "timeout_s",
        type=float,
        metavar="SECONDS",
        default=120.0,
        show_default=True,
        help="How long each framework may take.",
    ),
)
@cloup.option_group(
    "As a gate",
    option(
        "--require",
        multiple=True,
        metavar="WHAT",
        help="Exit with 1 unless it holds; may be repeated. WHAT is a framework, which then has to "
        "compute; gpu; or NAME and a number, joined by >=, >, ==, <= or <. NAME is gpus, cpus, "
        "gpu_memory (GiB, of the smallest), memory or shm (GiB), driver or cuda (versions).",
    ),
)
@cloup.option_group(
    "Output",
    json_option("Print the report as JSON, and only that."),
    option(
        "--html",
        "page",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write a page as well.",
    ),
    option("--names", is_flag=True, help="Leave user names and home directories in the report."),
    option(
        "--explain",
        metavar="CODE",
        help="Print what is known of a failure, by the code that a check shows; check nothing.",
    ),
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
