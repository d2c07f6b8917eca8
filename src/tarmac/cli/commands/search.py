"""``tarmac search``: parse, call, render."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup
from click.shell_completion import CompletionItem

from tarmac.cli.commands.search_studies import (
    best,
    dashboard,
    export_trials,
    list_them,
    plot,
    show,
)
from tarmac.cli.commands.search_worker import worker
from tarmac.cli.completion import complete_workloads
from tarmac.cli.imports import gc_paused
from tarmac.cli.options import (
    GroupWithMain,
    MainCommand,
    examples,
    summary_of,
)
from tarmac.cli.output import outlives_output
from tarmac.cli.places import chosen
from tarmac.cli.search_dry_run import print_preview
from tarmac.cli.search_elsewhere import search_there
from tarmac.cli.search_options import search_options, space_of, workers_of
from tarmac.errors import Interrupted, RequestError, TarmacError, quoted

if TYPE_CHECKING:
    from tarmac.studies import Study


def _complete_first(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    names = [name for name in command.commands if name.startswith(incomplete)]
    commands = [CompletionItem(name, help=summary_of(command.commands[name])) for name in names]
    return complete_workloads(ctx, parameter, incomplete) + commands


@click.group("search", cls=GroupWithMain)
def command() -> None:
    """Search for a good network: evolve, try all, or sample."""


@cloup.command(
    "search",
    cls=MainCommand,
    epilog=examples(
        "tarmac search digits-mlp --set hidden=8,16,32,64 --trials 10",
        "tarmac search mlp-evolve --set dataset=digits --budget 10m",
        "tarmac search my_model.py:workload --space space.yaml --method tpe",
        "tarmac search study.yaml --workers 4",
        "tarmac search --resume latest",
        "tarmac search best latest",
        "tarmac search -- list                 a workload that is called as a command",
    ),
)
@cloup.argument(
    "what",
    metavar="[WORKLOAD|STUDY]",
    required=False,
    shell_complete=_complete_first,
    help="WORKLOAD is a name from tarmac train --list or my_model.py:workload; STUDY is "
    "a YAML file, or a study that comes with Tarmac: mlp-evolve.",
)
@search_options
@click.pass_context
def begin(
    ctx: click.Context,
    /,
    what: str | None,
    space_file: Path | None,
    settings: Sequence[str],
    output: Path | None,
    resume: str | None,
    dry_run: bool,
    as_yaml: bool,
    as_json: bool,
    on: str | None,
    profile: str | None,
    cpus_per_worker: float,
    gpus_per_worker: float,
    memory_per_worker: str | None,
    time_per_worker: str | None,
    log_to: Sequence[str],
    **options: Any,
) -> None:
    """Search for a good network: evolve, try all, or sample.

    Candidates are judged on held-out data, and the best is scored on the test set once.
    """
    with gc_paused():
        from tarmac.cli.views.search import reporter_for
        from tarmac.documents import dump_document
        from tarmac.studies import check_trackers, open_study, preview_search, tracked, work_on

    if as_yaml and (as_json or not dry_run):
        raise RequestError("--yaml is for --dry-run, without --json")
    check_trackers(log_to)
    fields = {name: value for name, value in options.items() if value is not None}
    space = space_of(space_file, settings)
    if space:
        fields["space"] = space
    # The settings' `on` is for jobs: searches run here unless --on or --profile sends them away.
    place = None if on is None and profile is None else chosen(on, profile)
    workers = None
    if place is not None and place.on != "local":
        per_worker = (cpus_per_worker, gpus_per_worker, memory_per_worker, time_per_worker)
        workers = workers_of(place, fields.pop("workers", 1), *per_worker)
    if dry_run:
        preview = preview_search(what, output=output, resume=resume, cluster=workers, **fields)
        if as_yaml:
            click.echo(dump_document(preview.file, has_lists=True), nl=False)
            return
        print_preview(preview, workers, as_json=as_json)
        return
    if workers is not None:
        study = open_study(what, output=output, resume=resume, is_shared=True, **fields)
        search_there(study, workers, fields.get("storage"), log_to, as_json=as_json)
        _conclude(study, as_json=as_json)
        ctx.exit(0 if study.record.status == "completed" else 1)
    study = open_study(what, output=output, resume=resume, **fields)
    # A second Ctrl-C, which does not wait for running networks, is reported like the first.
    with (
        outlives_output(unless=as_json),
        reporter_for(quiet=as_json) as reporter,
        tracked(study, reporter, log_to) as tracking,
        contextlib.suppress(KeyboardInterrupt),
    ):
        work_on(study, tracking)
    with outlives_output(unless=as_json):
        _conclude(study, as_json=as_json)
    ctx.exit(0 if study.record.status == "completed" else 1)


def _conclude(study: Study, *, as_json: bool) -> None:
    from tarmac.cli.views.study import print_best, result_of

    record = study.record
    if as_json:
        click.echo(json.dumps(result_of(study), indent=2))
    elif record.best is not None and record.status == "completed":
        print_best(study, record.best, record.front)
    if record.status in ("interrupted", "running"):
        raise Interrupted(
            "interrupted; finished networks are kept, unfinished ones will be trained again",
            hint=f"Resume it: tarmac search --resume {quoted(study.path)}",
        )
    if record.status == "failed":
        raise TarmacError(
            record.error or "failed", hint=f"See it: tarmac search show {quoted(study.path)}"
        )


for _command in (list_them, show, best, export_trials, worker, plot, dashboard):
    command.add_command(_command)
begin.serve(command)
