"""``tarmac check compare``: parse, call, render."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click
import cloup

from tarmac.cli.options import Filename, examples, json_option
from tarmac.errors import RequestError


@cloup.command(
    "compare",
    epilog=examples(
        "tarmac check compare n01.json n02.json n03.json",
        "tarmac check compare --json n01.json n02.json",
        "tarmac check -- compare               a framework of that name",
    ),
)
@cloup.argument(
    "files",
    nargs=-1,
    metavar="REPORT REPORT...",
    type=Filename(path_type=Path),
    help="Files that tarmac check --save or --json wrote on each machine.",
)
@json_option()
@click.pass_context
def compare(ctx: click.Context, files: Sequence[Path], as_json: bool) -> None:
    """Compare reports of many machines, and name those that differ in versions, settings or rates.

    Exits with 1 if a machine differs from the others, with 2 if a file is not a report.
    """
    from tarmac.checks import compare_reports, read_report
    from tarmac.cli.views.check import print_fleet

    if len(files) < 2:
        raise RequestError(f"{len(files)} reports are named, expected at least 2 to compare")
    stems = [path.stem for path in files]
    names = stems if len({*stems}) == len(stems) else [str(path) for path in files]
    if len({*names}) < len(names):
        raise RequestError("a report is named twice")
    fleet = compare_reports(
        {name: read_report(path) for name, path in zip(names, files, strict=True)}
    )
    if as_json:
        click.echo(json.dumps(fleet.facts(), indent=2))
    else:
        print_fleet(fleet)
    ctx.exit(1 if fleet.odd else 0)
