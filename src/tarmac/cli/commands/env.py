"""``tarmac env``: parse, call, render."""

from __future__ import annotations

import json

import click

__all__ = ["command"]


@click.group("env", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List and remove the environments that were built for jobs."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def _list(as_json: bool) -> None:
    """List built environments."""
    from tarmac.environments import list_venvs

    found = list_venvs()
    if as_json:
        rows = [{"path": str(path), "requirements": text.splitlines()} for path, text in found]
        click.echo(json.dumps(rows, indent=2))
        return
    for path, text in found:
        click.echo(f"{path.name}  {', '.join(text.splitlines())}  {path}")


@command.command("rm")
@click.argument("name")
def _remove(name: str) -> None:
    """Remove the environment whose name begins with NAME."""
    from tarmac.environments import remove_venv

    click.echo(f"removed {remove_venv(name)}")
