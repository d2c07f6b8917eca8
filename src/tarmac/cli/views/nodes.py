"""What a cluster's nodes have, as a table or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.slurm import NodeFindings

__all__ = ["print_nodes"]

_GIB = 2**30


def print_nodes(found: Sequence[NodeFindings], *, as_json: bool) -> int:
    """Print what nodes have.

    Returns:
        The exit code: 1 where a node is not fit, 3 where one could not be looked at, else 0.
    """
    if as_json:
        click.echo(json.dumps([_values(one) for one in found], indent=2))
    else:
        _print_table(found)
    if any(not one.is_fit and one.state in ("looked", "blind") for one in found):
        return 1
    return 0 if found and all(one.is_fit for one in found) else 3


def _values(one: NodeFindings) -> dict[str, object]:
    return {
        "node": one.node.name,
        "partition": one.node.partition,
        "state": one.state,
        "words": list(one.words),
        "cpus": one.node.cpus,
        "memory_bytes": one.node.memory_bytes,
        "gres": _gres(one),
        "driver_gpus": one.num_gpus,
        "gpu_makers": dict(one.makers),
        "alike": list(one.alike),
        "python": one.python,
        "containers": list(one.containers),
        "user_id": one.user_id,
        "has_interpreter": one.has_interpreter,
    }


def _print_table(found: Sequence[NodeFindings]) -> None:
    if not found:
        click.echo("This Slurm has no node in that partition.")
        return
    rows = [("NODE", "PARTITION", "CPUS", "MEMORY", "GPUS", "PYTHON", "CONTAINERS", "TARMAC")]
    for one in found:
        looked = one.state == "looked"
        rows.append(
            (
                one.node.name,
                one.node.partition,
                str(one.node.cpus),
                f"{one.node.memory_bytes / _GIB:.0f} GiB",
                _gres(one) or "none",
                (one.python.partition(" ")[0] or "none") if looked else "?",
                (", ".join(one.containers) or "none") if looked else "?",
                ("yes" if one.has_interpreter else "no") if looked else "?",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())
    for one in found:
        for words in one.words:
            click.echo(f"{one.node.name}: {words}")
    more = [one for one in found if one.alike]
    if more:
        count = sum(len(one.alike) for one in more)
        click.echo(f"One node of each kind was looked at; {count} are alike by Slurm's word:")
    for one in more:
        click.echo(f"{one.node.name}: {len(one.alike)} like it, {one.alike[0]} the first of them")


def _gres(one: NodeFindings) -> str:
    parts = (
        ":".join(filter(None, (gres.name, gres.kind, str(gres.count)))) for gres in one.node.gres
    )
    return ", ".join(parts)
