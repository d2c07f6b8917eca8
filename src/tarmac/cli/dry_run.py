"""Output of ``tarmac run --dry-run``: the tasks, and the files that a cluster would get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tarmac.errors import RequestError
from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.cli.views.job_plan import Plan
    from tarmac.formats import Reading
    from tarmac.jobs import Job, JobRun, Machine, RunRequest

# Most files for a cluster to show; files of very many tasks differ only in their numbers.
_MAX_FILES = 10


def print_plans_of(
    read: Sequence[tuple[Reading, Path]],
    on: str,
    request: RunRequest,
    *,
    as_json: bool,
) -> None:
    """Print the plans of jobs, with needs that are missing.

    Args:
        read: Contents of the files, each with the directory that its paths start from.
        on: Executor of the tasks, such as ``local`` or ``slurm``.
        request: Options of the runs, beside their jobs.
        as_json: Whether to print JSON only.
    """
    from tarmac.cli.views.job_plan import plan_rows, plans_of, print_plans, say_problems

    fake_gpus, output = request.fake_gpus, request.output
    machine = _machine(on, fake_gpus)
    plans = plans_of(read, on, request.secrets, machine)
    pipelines = [
        (job, base, reading)
        for reading, base in read
        for job in reading.jobs
        if job.pipeline is not None
    ]
    rows = []
    if plans:
        if as_json:
            rows = plan_rows(plans, machine)
        else:
            print_plans(plans, machine)
            for plan in plans:
                print_files(plan, on, output, request.concurrency)
    for job, base, reading in pipelines:
        problems = () if on != "local" else _problems_of_pipeline(job, base, request)
        refusals = (*reading.refusals, *problems)
        rows += _show_pipeline(job, base, fake_gpus, reading.notes, refusals, as_json=as_json)
        if not as_json:
            say_problems(problems)
        if on != "local" and not as_json and not reading.refusals:
            print_files(_asked_of_cluster(job, base, on), on, output, request.concurrency)
    if as_json:
        echo_json(rows)


def print_rest(run: JobRun, request: RunRequest, *, as_json: bool) -> None:
    """Print the plan for resuming a run."""
    from tarmac.cli.views.job_plan import plan_rows, print_plans, rest_of
    from tarmac.jobs import read_status

    if run.job.pipeline is None:
        machine = _machine(run.executor, request.fake_gpus)
        plan = rest_of(run, request.secrets, machine)
        if as_json:
            echo_json(plan_rows([plan], machine))
        else:
            print_plans([plan], machine)
            print_files(plan, run.executor, run.path.parent, None)
        return
    if not as_json:
        done = read_status(run.path).count("succeeded")
        are = counted(done, "task has succeeded and is", "tasks have succeeded and are")
        click.echo(f"{are} not run again with the same input")
    rows = _show_pipeline(run.job, run.base, request.fake_gpus, as_json=as_json)
    if as_json:
        echo_json(rows)


def echo_json(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as JSON."""
    from tarmac.hkube import to_json

    click.echo(to_json(rows, indent=2))


def print_files(plan: Plan, on: str, output: Path | None, jobs: int | None) -> None:
    """Print the files that a cluster would get for a job.

    Args:
        plan: Plan of the job, with its tasks.
        on: Name of the executor, such as ``slurm`` or ``kubernetes``.
        output: Directory in which the run would be created. None: the default.
        jobs: Maximum number of tasks at a time. None: the job's own limit.
    """
    count = 0
    for count, (title, text) in enumerate(files_of(plan, on, output, jobs), start=1):
        if count <= _MAX_FILES:
            click.secho(title, bold=True)
            click.echo(text)
    if count > _MAX_FILES:
        click.echo(f"and {count - _MAX_FILES:,} more files, {count:,} in all")


def files_of(
    plan: Plan, on: str, output: Path | None = None, jobs: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the title and the text of each file that a cluster would get for a job.

    Executors that submit no files yield nothing. For the arguments, see `print_files`.
    """
    from tarmac.jobs import SHARED, ConversionError, Site, find_executor, placed
    from tarmac.runs import default_output

    kind = find_executor(on)
    if kind.preview is None or not plan.tasks:
        return
    run = (output or default_output()).resolve() / f"{plan.name}-RUN"
    site = Site(
        tasks=plan.tasks,
        run=run,
        base=plan.base,
        shared=run / SHARED,
        concurrency=jobs or plan.concurrency,
    )
    try:
        for count, text in enumerate(kind.preview(site), start=1):
            yield f"{plan.name}: file {count} for {kind.title}", text
    except ConversionError as error:
        raise placed(error, plan.source) from error


def _problems_of_pipeline(job: Job, base: Path, request: RunRequest) -> Sequence[str]:
    """Return why a pipeline would be refused here, except for the refusals of its format."""
    from tarmac.hkube import prepare_pipeline

    if job.refusals:
        return ()
    try:
        prepare_pipeline(job, base, request)
    except RequestError as error:
        return (str(error),)
    return ()


def _asked_of_cluster(job: Job, base: Path, on: str) -> Plan:
    """Return the plan of a pipeline's requests to a cluster: one task for each algorithm."""
    from tarmac.cli.views.job_plan import Plan
    from tarmac.hkube import asked_of_cluster

    return Plan(job.name, base, asked_of_cluster(job, base, on), job.concurrency)


def _machine(on: str, fake_gpus: int) -> Machine | None:
    """Return this machine if the tasks run on it, else None."""
    from tarmac.jobs import read_machine

    return read_machine(fake_gpus=fake_gpus) if on == "local" else None


def _show_pipeline(
    job: Job,
    base: Path,
    fake_gpus: int,
    notes: Sequence[str] = (),
    refusals: Sequence[str] = (),
    *,
    as_json: bool,
) -> list[dict[str, Any]]:
    """Print the plan of a pipeline, or return it as rows."""
    # Imported here: other jobs need none of its modules.
    from tarmac.cli.views.pipeline_plan import pipeline_rows, print_pipeline
    from tarmac.jobs import read_machine

    if as_json:
        return pipeline_rows(job, base, read_machine(fake_gpus=fake_gpus), notes, refusals)
    print_pipeline(job, base, fake_gpus=fake_gpus)
    return []
