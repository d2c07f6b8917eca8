"""``tarmac run`` and ``tarmac submit``: parse, call, render."""

from __future__ import annotations

import dataclasses
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from tarmac.cli.choices import Choice
from tarmac.cli.completion import complete_jobs
from tarmac.cli.job_files import read_jobs, secret_places
from tarmac.cli.options import (
    count_option,
    examples,
    json_option,
    option,
    output_option,
    pairs_option,
)
from tarmac.errors import Interrupted, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tarmac.formats import Reading
    from tarmac.jobs import JobRun, Secret

__all__ = ["command", "submit"]


_job_files = cloup.argument(
    "files",
    nargs=-1,
    metavar="[FILE]...",
    type=click.Path(path_type=Path),
    help="Job files of Tarmac's, HKube's or Batch Shipyard's; a folder stands for the Batch "
    "Shipyard files in it.",
)


def _job_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which job, and within what."""
    groups = (
        cloup.option_group(
            "The job",
            pairs_option(
                "--set",
                "settings",
                help="Change a value of the file, e.g. resources.cpus=2; may be repeated.",
            ),
            option(
                "--secret",
                "secrets",
                multiple=True,
                metavar="NAME/KEY=env:VAR",
                help="Where a named secret is to be found: env:VARIABLE or file:PATH; may be "
                "repeated.",
            ),
        ),
        cloup.option_group(
            "Where",
            option(
                "--on",
                type=Choice(["local"], "tarmac.executors"),
                show_default="local, this machine; of a resumed run where it began",
                help="Where tasks run.",
            ),
            count_option("--jobs", show_default="as many as fit", help="At most N tasks at once."),
            option(
                "--fake-gpus",
                type=click.IntRange(min=0),
                metavar="N",
                default=0,
                show_default=True,
                help="Pretend GPUs, to try a file without any.",
            ),
            output_option("Where runs are made."),
        ),
    )
    for group in reversed(groups):
        function = group(function)
    return function


@cloup.command(
    "run",
    epilog=examples(
        "tarmac run job.yaml --dry-run",
        "tarmac run job.yaml --set resources.gpus=1 --follow",
        "tarmac run shipyard/                    a folder of Batch Shipyard's files",
        "tarmac run --resume latest",
    ),
)
@_job_files
@_job_options
@cloup.option_group(
    "How",
    option("--dry-run", is_flag=True, help="Print the tasks, and start nothing."),
    option(
        "--resume",
        metavar="RUN",
        shell_complete=complete_jobs,
        help="Go on with a run: do what has not succeeded yet.",
    ),
    option("--follow", is_flag=True, help="Print what tasks print, as they print it."),
    json_option("Print the result as JSON, and only that."),
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    files: Sequence[Path],
    dry_run: bool,
    resume: str | None,
    follow: bool,
    jobs: int | None,
    settings: Sequence[tuple[str, str]],
    secrets: Sequence[str],
    on: str | None,
    fake_gpus: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Run job files on this machine.

    Each task starts when what it needs is done and there is room for it.
    """
    from tarmac.cli.views.job_plan import plans_of, print_plans, rest_of
    from tarmac.jobs import find_run, prepare

    if bool(files) == (resume is not None):
        raise RequestError("expected job files, or --resume RUN", hint="tarmac run job.yaml")
    mapping = _asked(jobs, secrets, fake_gpus, quiet=as_json)
    if resume is not None:
        if settings:
            raise RequestError(
                "--set cannot be changed in a resumed run",
                hint=f"Start a new one: tarmac run FILE --set {'='.join(settings[0])}",
            )
        runs = [find_run(resume, output)]
        if on is not None:
            runs = [dataclasses.replace(runs[0], executor=on)]
        if dry_run:
            print_plans([rest_of(runs[0])], fake_gpus=fake_gpus, as_json=as_json)
            return
        prepare(
            runs[0].job,
            runs[0].base,
            mapping,
            fake_gpus=fake_gpus,
            executor=runs[0].executor,
        )
    else:
        read = read_jobs(files, settings, quiet=as_json, is_run=not dry_run)
        if dry_run:
            print_plans(plans_of(read), fake_gpus=fake_gpus, as_json=as_json)
            return
        runs = _make_runs(read, mapping, fake_gpus, output, on or "local")
    results = [
        _work(
            run,
            jobs=jobs,
            fake_gpus=fake_gpus,
            follow=follow,
            as_json=as_json,
            mapping=mapping,
        )
        for run in runs
    ]
    if as_json:
        click.echo(json.dumps(results, indent=2))
    ctx.exit(0 if all(result["ok"] for result in results) else 1)


@cloup.command(
    "submit",
    epilog=examples("tarmac submit job.yaml", "tarmac logs latest --follow"),
)
@_job_files
@_job_options
@json_option("Print the runs as JSON, and only that.")
def submit(
    files: Sequence[Path],
    jobs: int | None,
    settings: Sequence[tuple[str, str]],
    secrets: Sequence[str],
    on: str | None,
    fake_gpus: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Run job files in the background.

    tarmac ps, logs and cancel look at them and end them.
    """
    if not files:
        raise RequestError("expected job files", hint="tarmac submit job.yaml")
    from tarmac.jobs import start_runner

    mapping = _asked(jobs, secrets, fake_gpus, quiet=as_json)
    read = read_jobs(files, settings, quiet=as_json, is_run=True)
    paths = []
    for run in _make_runs(read, mapping, fake_gpus, output, on or "local"):
        start_runner(run, concurrency=jobs, fake_gpus=fake_gpus, secrets=secret_places(secrets))
        paths.append(str(run.path))
        if not as_json:
            click.echo(f"{run.job.name}: {len(run.tasks)} tasks  {run.path}")
    if as_json:
        click.echo(json.dumps([{"path": path} for path in paths], indent=2))
    else:
        click.echo("Watch: tarmac ps, tarmac logs latest --follow. End: tarmac cancel latest")


def _make_runs(
    read: Sequence[tuple[Reading, Path]],
    mapping: Mapping[str, Secret],
    fake_gpus: int,
    output: Path | None,
    on: str,
) -> list[JobRun]:
    """Make the runs of jobs, once none of them has to be refused."""
    from tarmac.jobs import create_run, prepare

    planned = [
        (job, base, prepare(job, base, mapping, fake_gpus=fake_gpus, executor=on))
        for reading, base in read
        for job in reading.jobs
    ]
    return [create_run(job, base, tasks, output, executor=on) for job, base, tasks in planned]


def _asked(
    jobs: int | None, secrets: Sequence[str], fake_gpus: int, *, quiet: bool
) -> dict[str, Secret]:
    """Check what `_job_options` give, and return what names of secrets stand for."""
    from tarmac.jobs import read_secret_mapping

    if jobs is not None and jobs < 1:
        raise RequestError(f"jobs is {jobs}, expected at least 1")
    if fake_gpus and not quiet:
        click.secho(
            f"{fake_gpus} GPUs are PRETENDED (--fake-gpus): programs will find none",
            fg="yellow",
            err=True,
        )
    return read_secret_mapping() | secret_places(secrets)


def _work(
    run: JobRun,
    *,
    jobs: int | None,
    fake_gpus: int,
    follow: bool,
    as_json: bool,
    mapping: Mapping[str, Secret],
) -> dict[str, Any]:
    from tarmac.cli.views.job import progress_of
    from tarmac.jobs import work_on

    if not as_json:
        click.echo(f"{run.job.name}: {len(run.tasks)} tasks  {run.path}")
    # A job that wants no GPU need not wait for a look at them.
    if not fake_gpus and any(task.resources.gpus for task in run.tasks):
        from tarmac.cli.preflight import check_into

        check_into(run.path, quiet=as_json)
    with _Signals() as stop, progress_of(run, follow=follow, quiet=as_json) as watcher:
        counts = work_on(
            run,
            watcher,
            concurrency=jobs,
            fake_gpus=fake_gpus,
            stop=lambda: stop.came,
            mapping=mapping,
        )
    summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    ok = counts["succeeded"] == len(run.tasks)
    if not as_json:
        click.echo(f"{summary or 'nothing to do'}  {run.path}")
    num_ended = counts["succeeded"] + counts["failed"] + counts["skipped"]
    if stop.came and num_ended < len(run.tasks):
        raise Interrupted(
            "interrupted", hint=f"Go on with what is left: tarmac run --resume {run.path}"
        )
    if not ok and not as_json:
        click.echo(f"Again what has not succeeded: tarmac run --resume {run.path}", err=True)
    return {"path": str(run.path), "ok": ok, "counts": dict(counts), "tasks": watcher.rows}


class _Signals:
    """Notes the first SIGINT or SIGTERM; a second one acts as it did before."""

    def __init__(self) -> None:
        self.came = False
        self._before: Mapping[signal.Signals, Any] = {}

    def __enter__(self) -> _Signals:
        names = (signal.SIGINT, signal.SIGTERM)
        self._before = {name: signal.signal(name, self._note) for name in names}
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def _note(self, *_: object) -> None:
        self.came = True
        self.__exit__()
