"""``tarmac data``: list, fetch, add and verify datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup

from tarmac.cli.completion import complete_datasets
from tarmac.cli.options import Group, examples, json_option, option
from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


@click.group(
    "data",
    cls=Group,
    epilog=examples(
        "tarmac data list",
        "tarmac data fetch mnist",
        "tarmac data add mnist --from /mnt/usb/mnist",
        "tarmac data verify",
    ),
)
def command() -> None:
    """List, fetch, add and verify datasets.

    They lie under TARMAC_DATA, or in the user's cache directory. TARMAC_MIRROR names a mirror of
    your own, tried first.
    """


@command.command("list", epilog=examples("tarmac data list --json"))
@json_option()
def list_datasets(as_json: bool) -> None:
    """List the datasets and whether they are here."""
    from rich.table import Table

    from tarmac import data
    from tarmac.cli.console import make_console

    statuses = data.describe()
    if as_json:
        rows = [
            {
                "name": status.name,
                "summary": status.summary,
                "homepage": status.homepage,
                "num_train": status.num_train,
                "num_test": status.num_test,
                "sample_shape": list(status.sample_shape),
                "state": status.state,
                "path": None if status.path is None else str(status.path),
            }
            for status in statuses
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("dataset", "", "train", "test", "sample", "state", box=None, pad_edge=False)
    for status in statuses:
        table.add_row(
            status.name,
            status.summary,
            f"{status.num_train:,}",
            f"{status.num_test:,}",
            "x".join(map(str, status.sample_shape)),
            status.state,
        )
    make_console().print(table)
    click.echo(f"under {data.data_root()}")


@command.command(epilog=examples("tarmac data fetch mnist cifar10"))
@cloup.argument(
    "names",
    nargs=-1,
    required=True,
    metavar="NAME...",
    shell_complete=complete_datasets,
    help="Names from tarmac data list.",
)
@json_option()
def fetch(names: Sequence[str], as_json: bool) -> None:
    """Download datasets, verified.

    What is here and right is not downloaded again.
    """
    from tarmac import data
    from tarmac.cli.views.download import download_progress

    fetched = {}
    for name in names:
        with download_progress(quiet=as_json) as progress:
            fetched[name] = str(data.fetch(name, progress=progress))
        if not as_json:
            click.echo(f"{name} is in {fetched[name]}")
    if as_json:
        click.echo(json.dumps(fetched, indent=2))


@command.command(epilog=examples("tarmac data add mnist --from /mnt/usb/mnist"))
@cloup.argument(
    "name", metavar="NAME", shell_complete=complete_datasets, help="A name from tarmac data list."
)
@option(
    "--from",
    "origin",
    metavar="DIRECTORY",
    required=True,
    type=click.Path(path_type=Path),
    help="A directory that holds the files, compressed or not.",
)
@json_option()
def add(name: str, origin: Path, as_json: bool) -> None:
    """Take a dataset over from a directory: for machines without internet."""
    from tarmac import data

    path = data.add(name, origin)
    click.echo(json.dumps({name: str(path)}, indent=2) if as_json else f"{name} is in {path}")


@command.command(epilog=examples("tarmac data verify", "tarmac data verify mnist --json"))
@cloup.argument(
    "names",
    nargs=-1,
    metavar="[NAME]...",
    shell_complete=complete_datasets,
    help="Names from tarmac data list; all that are here if none is named.",
)
@json_option()
def verify(names: Sequence[str], as_json: bool) -> None:
    """Check the files of datasets."""
    from tarmac import data

    asked = names or [s.name for s in data.describe() if s.state in ("present", "partial")]
    checked = {name: data.verify(name) for name in asked}
    if as_json:
        rows = {
            name: [{"file": f.name, "ok": f.ok, "reason": f.reason} for f in files]
            for name, files in checked.items()
        }
        click.echo(json.dumps(rows, indent=2))
    else:
        if not checked:
            click.echo(f"no dataset is here, under {data.data_root()}")
        for name, files in checked.items():
            if not files:
                click.echo(f"{name}: embedded, nothing to check")
            for file in files:
                click.echo(f"{name}: {file.name}: {file.reason or 'ok'}")
    wrong = [name for name, files in checked.items() if not all(file.ok for file in files)]
    if wrong:
        raise TarmacError(
            f"not right: {', '.join(wrong)}", hint=f"Fetch again: tarmac data fetch {wrong[0]}"
        )
