"""The findings on a Kubernetes cluster's nodes, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tarmac.cli.views.nodes import print_alike, print_rows
from tarmac.machine import survey_exit_code

if TYPE_CHECKING:
    from tarmac.kubernetes import ClusterFindings

_GIB = 2**30


def print_cluster_nodes(found: Sequence[ClusterFindings], title: str, *, as_json: bool) -> int:
    """Print the findings on nodes, and return the exit code.

    Args:
        found: Findings per node of the cluster.
        title: Name of the cluster in messages: its context and server.
        as_json: Whether to print JSON only.

    Returns:
        The exit code: 1 if a node is unfit, 3 if a node could not be checked, else 0.
    """
    if as_json:
        click.echo(json.dumps([_values(findings) for findings in found], indent=2))
    elif not found:
        click.echo(f"{title} has no node.")
    else:
        _print_table(found)
    return survey_exit_code(found)


def _values(one: ClusterFindings) -> dict[str, object]:
    return {
        "node": one.name,
        "state": one.state,
        "is_fit": one.is_fit,
        "words": list(one.words),
        "unseen": list(one.unseen),
        "cpus": one.node.cpus,
        "memory_bytes": one.node.memory_bytes,
        "gpus": dict(one.node.gpus),
        "seen_gpus": dict(one.gpus),
        "driver": one.driver,
        "python": one.python,
        "tarmac": one.tarmac,
        "alike": list(one.alike),
    }


def _print_table(found: Sequence[ClusterFindings]) -> None:
    rows = [("NODE", "STATE", "CPUS", "MEMORY", "GPUS", "SEEN", "DRIVER", "PYTHON", "TARMAC")]
    for findings in found:
        has_answer = findings.state in ("looked", "unseen")
        state = (
            "fit" if findings.is_fit else "unfit" if findings.state == "looked" else findings.state
        )
        gpus = ", ".join(f"{name}:{count}" for name, count in findings.node.gpus.items())
        seen = ", ".join(f"{count} {name}" for name, count in findings.gpus.items())
        rows.append(
            (
                findings.name,
                state,
                f"{findings.node.cpus:g}",
                f"{findings.node.memory_bytes / _GIB:.0f} GiB",
                gpus or "none",
                (seen or "none") if has_answer else "?",
                (findings.driver or "none") if has_answer else "?",
                findings.python if has_answer else "?",
                findings.tarmac if has_answer else "?",
            )
        )
    print_rows(rows)
    for findings in found:
        for words in (*findings.words, *findings.unseen):
            click.echo(f"{findings.name}: {words}")
    print_alike(found, "the cluster")
