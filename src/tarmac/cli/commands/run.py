"""``tarmac run`` and ``tarmac submit``: parse, call, render."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import cloup

from tarmac.cli.completion import complete_jobs
from tarmac.cli.dry_run import echo_json, print_plans_of, print_rest
from tarmac.cli.job_files import read_jobs
from tarmac.cli.job_options import job_files, job_options, run_request
from tarmac.cli.job_runs import (
    check_result,
    make_runs,
    refuse_rest,
    refuse_second_runner,
    resumed,
    submit_runs,
)
from tarmac.cli.job_work import Shown, work
from tarmac.cli.options import (
    Filename,
    examples,
    json_option,
    option,
)
from tarmac.cli.places import chosen
from tarmac.errors import RequestError, quoted


@cloup.command(
    "run",
    epilog=examples(
        "tarmac run job.yaml --dry-run",
        "tarmac run job.yaml --set resources.gpus=1 --follow",
        "tarmac run shipyard/                    a folder of Batch Shipyard's files",
        "tarmac run algorithm.json --input input.json",
        "tarmac run pipeline.json --algorithms algorithms/ --result result.json",
        "tarmac run job.yaml --on slurm --set options.slurm.partition=gpu",
        "tarmac run --resume latest",
    ),
)
@job_files
@job_options
@cloup.option_group(
    "How",
    option(
        "--dry-run",
        is_flag=True,
        help="Print the tasks, and the files for a cluster; start nothing.",
    ),
    option(
        "--resume",
        metavar="RUN",
        shell_complete=complete_jobs,
        help="Resume a run: start the tasks that have not succeeded yet.",
    ),
    option("--follow", is_flag=True, help="Print the output of tasks as they write it."),
    option(
        "--result",
        type=Filename(path_type=Path),
        metavar="FILE",
        help="Write the result of an HKube algorithm or pipeline to a file, as JSON.",
    ),
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
    result: Path | None,
    settings: Sequence[tuple[str, str]],
    input_file: Path | None,
    algorithms: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run job files, on this machine or a cluster.

    Each task starts when its needs are done and resources are free. On a cluster, Ctrl-C detaches
    from the run and leaves its tasks there; a second Ctrl-C within five seconds ends them.
    """
    if files and resume is not None:
        raise RequestError(
            "expected job files or --resume RUN, not both: a resumed run keeps its job",
            hint=f"Resume it: tarmac run --resume {quoted(resume)}\n"
            f"Run the files as a new run: tarmac run {quoted(*files)}",
        )
    if not files and resume is None:
        raise RequestError("expected job files, or --resume RUN", hint="tarmac run job.yaml")
    request = run_request(options, quiet=as_json)
    if resume is not None:
        given_anew = {
            "--set": "=".join(settings[0]) if settings else None,
            "--input": input_file,
            "--algorithms": algorithms,
            "--profile": request.profile,
        }
        runs = [resumed(resume, request, given_anew, quiet=as_json)]
        if dry_run:
            print_rest(runs[0], request, as_json=as_json)
            return
        refuse_rest(runs[0], request)
    else:
        place = chosen(request.on, request.profile)
        read = read_jobs(
            files,
            settings,
            quiet=as_json,
            is_run=not dry_run,
            algorithms=algorithms,
            input_file=input_file,
            below=place,
        )
        if dry_run:
            print_plans_of(read, place.on or "local", request, as_json=as_json)
            return
        if result is not None:
            check_result(result, [job for reading, _ in read for job in reading.jobs])
        runs = make_runs(read, request, place)
    if request.runner == "engine":
        refuse_second_runner(runs)
        submit_runs(runs, request, as_json=as_json)
        return
    if result is not None:
        check_result(result, [run.job for run in runs])
    shown = Shown(follow=follow, as_json=as_json, result=result)
    results = [work(run, request, shown) for run in runs]
    if as_json:
        echo_json(results)
    ctx.exit(0 if all(result["ok"] for result in results) else 1)


@cloup.command(
    "submit",
    epilog=examples(
        "tarmac submit job.yaml",
        "tarmac submit job.yaml --on slurm       the runner is a job there too",
        "tarmac logs latest --follow",
    ),
)
@job_files
@job_options
@json_option("Print the runs as JSON, and only that.")
def submit(
    files: Sequence[Path],
    settings: Sequence[tuple[str, str]],
    input_file: Path | None,
    algorithms: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run job files in the background.

    tarmac ps and logs show the runs, tarmac cancel ends them.
    """
    if not files:
        raise RequestError("expected job files", hint="tarmac submit job.yaml")
    request = run_request(options, quiet=as_json)
    place = chosen(request.on, request.profile)
    read = read_jobs(
        files,
        settings,
        quiet=as_json,
        is_run=True,
        algorithms=algorithms,
        input_file=input_file,
        below=place,
    )
    request = dataclasses.replace(request, runner=request.runner or place.runner)
    runs = make_runs(read, request, place, by_job=request.runner != "here")
    submit_runs(runs, request, as_json=as_json)
