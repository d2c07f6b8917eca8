"""``tarmac env``: parse, call, render."""

from __future__ import annotations

import json

import click
import cloup

from tarmac.cli.options import Group, examples, json_option


@click.group("env", cls=Group, epilog=examples("tarmac env list", "tarmac env rm 3f9a1c"))
def command() -> None:
    """List and remove the environments that were built for jobs."""


@command.command("list", epilog=examples("tarmac env list --json"))
@json_option()
def _list(as_json: bool) -> None:
    """List built environments."""
    from tarmac.environments import list_venvs, venvs_directory

    venvs = list_venvs()
    if as_json:
        rows = [{"path": str(path), "requirements": text.splitlines()} for path, text in venvs]
        click.echo(json.dumps(rows, indent=2))
        return
    for path, text in venvs:
        click.echo(f"{path.name}  {', '.join(text.splitlines()) or '(no packages)'}  {path}")
    if not venvs:
        click.echo(f"there are no environments in {venvs_directory()}")


@command.command("rm", epilog=examples("tarmac env rm 3f9a1c"))
@cloup.argument("name", metavar="NAME", help="Name in tarmac env list, or its beginning.")
def _remove(name: str) -> None:
    """Remove an environment."""
    from tarmac.environments import remove_venv

    click.echo(f"removed {remove_venv(name)}")
