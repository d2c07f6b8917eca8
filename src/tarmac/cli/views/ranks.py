"""``--ranks``: a number, or all ranks of a launcher; and their measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from tarmac.checks import Ranks


def ranks_of(text: str | None) -> int | Literal["all"] | None:
    """Parse the option's value.

    Raises:
        RequestError: The value is neither a number nor ``all``.
    """
    from tarmac.errors import RequestError

    if text is None or text == "all":
        return text  # type: ignore[return-value]  # mypy does not narrow str by a comparison
    if not text.isdecimal():
        raise RequestError(f"--ranks is {text!r}, expected a number of at least 2, or all")
    return int(text)


def print_ranks(ranks: Ranks) -> None:
    """Print the data rate of each host or rank with its partners."""
    click.secho(f"In pairs  {len(ranks.pairs)} in all, disjoint at each time", bold=True)
    for name, members in ranks.units.items():
        seconds = ranks.median_s(name)
        rate = "no pair succeeded"
        if seconds is not None:
            rate = f"median {ranks.message_bytes / seconds / 1e9:.3g} GB/s"
        facts = [f"{len(members)} ranks"] if len(members) > 1 else []
        facts += [members[0].gpu_name or "CPU", members[0].torch or "no PyTorch"]
        click.echo(f"  {name}  {rate}  ({', '.join(facts)})")
