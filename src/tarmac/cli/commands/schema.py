"""``tarmac schema``: parse, call, render."""

from __future__ import annotations

import json

import click
import cloup

from tarmac.cli.choices import Choice
from tarmac.cli.options import examples


@cloup.command(
    "schema",
    epilog=examples(
        "tarmac schema job > job.schema.json",
        "tarmac schema study > study.schema.json",
        "check-jsonschema --schemafile job.schema.json job.yaml",
    )
    + "\n\nA first line like this lets editors with the YAML language server complete a file:\n\n"
    "\b\n  # yaml-language-server: $schema=job.schema.json",
)
@cloup.argument(
    "kind",
    type=Choice(["job", "study", "expect", "top"]),
    help="File to describe: of a job, of a study, of tarmac check --expect, or of tarmac"
    " top --json.",
)
def command(kind: str) -> None:
    """Print the JSON Schema of a file that Tarmac reads, or of the output of tarmac top --json.

    The schema has the keys, their values and their meaning. Only tarmac run --dry-run finds
    problems that depend on several values, such as a cycle of needs.
    """
    if kind == "top":
        from tarmac.monitor import render_schema as render_readings

        click.echo(json.dumps(render_readings(), indent=2))
        return
    from tarmac.cli.views.schema import render_schema

    if kind == "job":
        from tarmac.jobs import Job, executor_names, find_executor

        models = {name: find_executor(name).options for name in executor_names()}
        options = {name: model for name, model in models.items() if model is not None}
        schema = render_schema(Job, "A Tarmac job file", options)
    elif kind == "expect":
        from tarmac.checks import Expectation

        schema = render_schema(Expectation, "A file for tarmac check --expect")
    else:
        from tarmac.studies import Request

        schema = render_schema(Request, "A Tarmac study file")
    click.echo(json.dumps(schema, indent=2))
