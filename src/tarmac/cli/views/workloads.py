"""Output of ``tarmac train --list``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tarmac.runs import name_words
from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.workloads import Workload


def print_workloads(name: str | None, *, as_json: bool) -> None:
    """Print the workloads, or one workload with its settings.

    Args:
        name: Name of a workload, or a file and a name in it. None: all, one line each.
        as_json: Whether to print JSON only, with all settings.
    """
    from tarmac.training import settings_of, show_setting
    from tarmac.workloads import find_workload, judged_by, workload_names

    def expected_of(workload: Workload) -> str:
        if workload.expectation is None:
            return "nothing known"
        metric = workload.expectation.metric_of(judged_by(workload))
        return f"{name_words(metric.removeprefix('test_'))} {workload.expectation}"

    names = workload_names() if name is None else (name,)
    workloads = [find_workload(workload_name) for workload_name in names]
    if as_json:
        rows = [
            {
                "name": workload.name,
                "summary": workload.summary,
                "dataset": workload.dataset if isinstance(workload.dataset, str) else None,
                "epochs": workload.recipe.epochs,
                "batch_size": workload.recipe.batch_size,
                "learning_rate": workload.recipe.optimizer.learning_rate,
                "expectation": str(workload.expectation) if workload.expectation else None,
                "took": workload.took,
                "settings": settings_of(workload),
            }
            for workload in workloads
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    width = max(len(workload.name) for workload in workloads)
    for workload in workloads:
        recipe = workload.recipe
        click.echo(click.style(f"{workload.name:<{width}}", bold=True) + f"  {workload.summary}")
        if name is None:
            continue
        expected = expected_of(workload)
        indent = " " * (width + 2)
        click.echo(
            f"{indent}expected: {expected} after {counted(recipe.epochs, 'epoch')} of batches of "
            f"{recipe.batch_size}"
        )
        for time in workload.took:
            click.echo(f"{indent}took: {time}")
        settings = ", ".join(
            f"{key}={show_setting(value)}" for key, value in settings_of(workload).items()
        )
        click.echo(click.wrap_text(f"--set {settings}", 99, indent, indent + "      "))
    if name is None:
        click.echo(f"List the settings of one: tarmac train {workloads[0].name} --list")
