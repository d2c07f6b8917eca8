"""``tarmac check``, which checks this machine unless its first word is ``compare``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from tarmac.cli.commands.check import command as begin
from tarmac.cli.options import Group, examples, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


class _Group(Group):
    """Checks, unless the first word is one of its commands."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if args and args[0] in self.commands:
            return super().make_context(info_name, args, parent, **extra)
        return begin.make_context(info_name, args, parent, **extra)


@click.group("check", cls=_Group)
def command() -> None:
    """Prove that frameworks compute on this machine's devices; else say what is wrong."""


@command.command(
    epilog=examples(
        "tarmac check compare n01.json n02.json n03.json",
        "tarmac check compare --json reports/*.json",
        "tarmac check -- compare               a framework of that name",
    )
)
@cloup.argument(
    "files",
    nargs=-1,
    metavar="REPORT REPORT...",
    type=click.Path(path_type=Path),
    help="What tarmac check --save or --json has written on each machine.",
)
@json_option()
@click.pass_context
def compare(ctx: click.Context, files: Sequence[Path], as_json: bool) -> None:
    """Say which of many machines is the odd one out: versions, settings, rates.

    Exits with 1 where one is, with 2 where a file is no report.
    """
    from tarmac.checks import compare_reports, read_report
    from tarmac.cli.check_text import print_fleet
    from tarmac.errors import RequestError

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
