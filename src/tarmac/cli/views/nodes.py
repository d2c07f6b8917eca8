"""The findings on a Slurm cluster's nodes, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tarmac.machine import NodeFindings, survey_exit_code

if TYPE_CHECKING:
    from tarmac.slurm import SlurmFindings

_GIB = 2**30


def print_nodes(all_findings: Sequence[SlurmFindings], *, as_json: bool) -> int:
    """Print the findings on nodes, and return the exit code.

    Returns:
        The exit code: 1 if a node is unfit, 3 if a node could not be checked, else 0.
    """
    if as_json:
        click.echo(json.dumps([_values(findings) for findings in all_findings], indent=2))
    else:
        _print_table(all_findings)
    return survey_exit_code(all_findings)


def _values(findings: SlurmFindings) -> dict[str, object]:
    return {
        "node": findings.node.name,
        "partition": findings.node.partition,
        "state": findings.state,
        "words": list(findings.words),
        "cpus": findings.node.cpus,
        "memory_bytes": findings.node.memory_bytes,
        "gres": _gres(findings),
        "driver_gpus": findings.num_gpus,
        "gpu_makers": dict(findings.makers),
        "alike": list(findings.alike),
        "python": findings.python,
        "containers": list(findings.containers),
        "user_id": findings.user_id,
        "has_interpreter": findings.has_interpreter,
    }


def _print_table(all_findings: Sequence[SlurmFindings]) -> None:
    if not all_findings:
        click.echo("This Slurm has no node in that partition.")
        return
    rows = [("NODE", "PARTITION", "CPUS", "MEMORY", "GPUS", "PYTHON", "CONTAINERS", "TARMAC")]
    for findings in all_findings:
        looked = findings.state == "looked"
        rows.append(
            (
                findings.node.name,
                findings.node.partition,
                str(findings.node.cpus),
                f"{findings.node.memory_bytes / _GIB:.0f} GiB",
                _gres(findings) or "none",
                (findings.python.partition(" ")[0] or "none") if looked else "?",
                (", ".join(findings.containers) or "none") if looked else "?",
                ("yes" if findings.has_interpreter else "no") if looked else "?",
            )
        )
    print_rows(rows)
    for findings in all_findings:
        for words in findings.words:
            click.echo(f"{findings.node.name}: {words}")
    print_alike(all_findings, "Slurm")


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print rows with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def print_alike(all_findings: Sequence[NodeFindings], engine: str) -> None:
    """Print the nodes that stand for equal nodes, which were not checked.

    Args:
        all_findings: Findings of the checked nodes, each with the names of its unchecked equals.
        engine: Source of that equality in the message, such as ``Slurm`` or ``the cluster``.
    """
    more = [node for node in all_findings if node.alike]
    if more:
        count = sum(len(node.alike) for node in more)
        click.echo(f"One node of each kind was checked; {engine} reports {count} equal nodes:")
    for node in more:
        click.echo(f"{node.name}: {len(node.alike)} equal nodes, such as {node.alike[0]}")


def _gres(findings: SlurmFindings) -> str:
    parts = (
        ":".join(filter(None, (gres.name, gres.kind, str(gres.count))))
        for gres in findings.node.gres
    )
    return ", ".join(parts)
