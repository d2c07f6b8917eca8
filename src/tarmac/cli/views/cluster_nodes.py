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


def print_cluster_nodes(
    all_findings: Sequence[ClusterFindings], title: str, *, as_json: bool
) -> int:
    """Print the findings on nodes, and return the exit code.

    Args:
        all_findings: Findings per node of the cluster.
        title: Name of the cluster in messages: its context and server.
        as_json: Whether to print JSON only.

    Returns:
        The exit code: 1 if a node is unfit, 3 if a node could not be checked, else 0.
    """
    if as_json:
        click.echo(json.dumps([_values(findings) for findings in all_findings], indent=2))
    elif not all_findings:
        click.echo(f"{title} has no node.")
    else:
        _print_table(all_findings)
    return survey_exit_code(all_findings)


def _values(findings: ClusterFindings) -> dict[str, object]:
    return {
        "node": findings.name,
        "state": findings.state,
        "is_fit": findings.is_fit,
        "words": list(findings.words),
        "unseen": list(findings.unseen),
        "cpus": findings.node.cpus,
        "memory_bytes": findings.node.memory_bytes,
        "gpus": dict(findings.node.gpus),
        "seen_gpus": dict(findings.gpus),
        "driver": findings.driver,
        "python": findings.python,
        "tarmac": findings.tarmac,
        "alike": list(findings.alike),
    }


def _print_table(all_findings: Sequence[ClusterFindings]) -> None:
    rows = [("NODE", "STATE", "CPUS", "MEMORY", "GPUS", "SEEN", "DRIVER", "PYTHON", "TARMAC")]
    for findings in all_findings:
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
    for findings in all_findings:
        for words in (*findings.words, *findings.unseen):
            click.echo(f"{findings.name}: {words}")
    print_alike(all_findings, "the cluster")
