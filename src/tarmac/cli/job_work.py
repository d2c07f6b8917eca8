"""Work on a job's run from the command line: its progress, signals and summary."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tarmac.cli.output import outlives_output
from tarmac.cli.stopping import Stopping
from tarmac.errors import Interrupted, TarmacError, quoted
from tarmac.wording import counted, in_lines, in_one_line

if TYPE_CHECKING:
    from tarmac.jobs import Job, JobRun, OwnRunnerJob, RunRequest, Task

# For a longer result, only the path of its file is printed.
_MAX_SHOWN_BYTES = 20_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shown:
    """Options for the output of a run.

    Attributes:
        follow: Whether to print the output of tasks as it is written.
        as_json: Whether to suppress text output, since the caller prints JSON.
        result: Second file for a pipeline's result. None: only the run's own.
    """

    follow: bool = False
    as_json: bool = False
    result: Path | None = None


def headline(run: JobRun) -> str:
    """Return the first line of a run's output: its job, number of tasks and directory."""
    what = counted(len(run.tasks), "task")
    if run.job.pipeline is not None:
        num_nodes = len(run.job.pipeline["nodes"])
        what = "1 node" if num_nodes == 1 else f"pipeline of {num_nodes} nodes"
    return in_one_line(f"{run.job.name}: {what}  {run.path}")


def work(run: JobRun, request: RunRequest, shown: Shown) -> dict[str, Any]:
    """Run the tasks of a job that have not succeeded yet, and print the progress.

    Args:
        run: Run of the job, whose directory exists already.
        request: Options of the run, such as its concurrency and secrets.
        shown: Options for the output of the run.

    Returns:
        The values that ``--json`` prints.

    Raises:
        Interrupted: A signal arrived, and tasks are left.
    """
    with outlives_output(unless=shown.as_json):
        if not shown.as_json:
            click.echo(headline(run))
        if run.job.pipeline is not None:
            return _work_pipeline(run, request, shown)
        return _work_tasks(run, request, shown)


@dataclasses.dataclass(frozen=True)
class _Watch:
    """Signals and runner of the work on a run.

    Attributes:
        stop: Signals that have arrived so far.
        detach: Returns whether to leave running tasks to the engine. Called often.
        runner_job: Job of the engine that this process is. None if it is none.
    """

    stop: Stopping
    detach: Callable[[], bool]
    runner_job: OwnRunnerJob | None


@contextlib.contextmanager
def _watched(run: JobRun, request: RunRequest) -> Iterator[_Watch]:
    """Watch signals as a run's runner; a runner that is a job also queues its successor in time."""
    from tarmac.jobs import OwnRunnerJob, find_executor

    kind = find_executor(run.executor)
    runner_job = OwnRunnerJob.find(run)
    if runner_job is not None and not runner_job.is_wanted():
        raise Interrupted(f"{run.path.name} no longer needs a runner")
    successor = request.runner_options()

    def queue_successor() -> None:
        if runner_job is None:
            return
        try:
            place = runner_job.queue_successor_in_time(successor)
        except TarmacError as error:
            message = (
                f"the next runner was not submitted: {error.message}\n  Resume the "
                "remaining tasks: "
            )
            click.echo(f"{message}tarmac run --resume {quoted(run.path)}", err=True)
        else:
            if place is not None:
                click.echo(
                    f"the time limit of this runner is near; job {place} continues the run",
                    err=True,
                )

    def detach() -> bool:
        queue_successor()
        return stop.detaches()

    with (
        contextlib.nullcontext() if runner_job is None else runner_job.at_work(),
        Stopping(
            outlives=kind.outlives,
            warn=lambda: click.echo(_what_goes_on(run, kind.title), err=True),
        ) as stop,
        _with_resume_hint(run),
    ):
        yield _Watch(stop, detach, runner_job)


def _work_tasks(run: JobRun, request: RunRequest, shown: Shown) -> dict[str, Any]:
    from tarmac.cli.views.job import progress_of
    from tarmac.jobs import end_runner_jobs, work_on

    if run.executor == "local" and not request.fake_gpus:
        _look_at_gpus(run, run.tasks, quiet=shown.as_json)
    with (
        _watched(run, request) as watch,
        progress_of(run, follow=shown.follow, quiet=shown.as_json) as watcher,
    ):
        counts = work_on(run, watcher, request, stop=lambda: watch.stop.came, detach=watch.detach)
    if watch.stop.has_detached:
        raise _detached(run)
    end_runner_jobs(run.path, run.executor, but=watch.runner_job)
    ok = counts["succeeded"] == len(run.tasks)
    if not shown.as_json:
        _sum_up(run, counts.items())
    num_ended = counts["succeeded"] + counts["failed"] + counts["skipped"]
    if num_ended < len(run.tasks):
        raise _interrupted(run)
    if not ok and not shown.as_json:
        _print_resume_hint(run)
    return {"path": str(run.path), "ok": ok, "counts": dict(counts), "tasks": watcher.rows}


def _work_pipeline(run: JobRun, request: RunRequest, shown: Shown) -> dict[str, Any]:
    from tarmac.cli.views.pipeline import pipeline_progress
    from tarmac.hkube import RESULT, plan_pipeline, to_json, work_on_pipeline, write_json
    from tarmac.jobs import end_runner_jobs

    if run.executor == "local" and not request.fake_gpus:
        needed = plan_pipeline(run.job).needed.values()
        _look_at_gpus(run, [algorithm.job for algorithm in needed], quiet=shown.as_json)
    with (
        _watched(run, request) as watch,
        pipeline_progress(
            run.path, follow=shown.follow, quiet=shown.as_json, keeps_rows=shown.as_json
        ) as watcher,
    ):
        end = work_on_pipeline(
            run, watcher, request, stop=lambda: watch.stop.came, detach=watch.detach
        )
    if end.is_left:
        raise _detached(run)
    end_runner_jobs(run.path, run.executor, but=watch.runner_job)
    if not shown.as_json:
        _sum_up(run, end.counts.items())
    if end.outcome == "interrupted":
        raise _interrupted(run)
    ok = end.outcome == "succeeded"
    if ok and shown.result is not None:
        write_json(shown.result, end.result)
    if not shown.as_json and ok:
        path = shown.result or run.path / RESULT
        is_large = path.stat().st_size > _MAX_SHOWN_BYTES
        click.echo(f"result: {path}" if is_large or shown.result else to_json(end.result, indent=2))
    elif not shown.as_json:
        click.secho(in_lines(f"failed: {end.reason}"), fg="red", err=True)
        _print_resume_hint(run)
    return {
        "path": str(run.path),
        "ok": ok,
        "reason": end.reason,
        "counts": dict(end.counts),
        "tasks": watcher.rows,
        "result": end.result if ok else None,
    }


@contextlib.contextmanager
def _with_resume_hint(run: JobRun) -> Iterator[None]:
    """Add the command that resumes the run to an error of its disk."""
    from tarmac.files import StorageError

    try:
        yield
    except StorageError as error:
        again = f"tarmac run --resume {quoted(run.path)}"
        first = f"{error.hint}\nThen resume it" if error.hint else "Once that is fixed"
        raise StorageError(error.message, hint=f"{first}: {again}") from error


def _look_at_gpus(run: JobRun, parts: Iterable[Task | Job], *, quiet: bool) -> None:
    """Check the GPUs, unless no task needs one."""
    on_gpus = [part for part in parts if part.resources.gpus]
    if on_gpus:
        from tarmac.cli.preflight import check_into
        from tarmac.jobs import SystemEnvironment, working_on

        own_python = any(isinstance(part.environment, SystemEnvironment) for part in on_gpus)
        # Other commands see that the run is active meanwhile.
        with working_on(run.path):
            check_into(run.path, own_python=own_python, quiet=quiet)


def _sum_up(run: JobRun, counts: Iterable[tuple[str, int]]) -> None:
    summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts))
    click.echo(in_one_line(f"{summary or 'nothing to do'}  {run.path}"))


def _interrupted(run: JobRun) -> Interrupted:
    hint = f"Resume the remaining tasks: tarmac run --resume {quoted(run.path)}"
    return Interrupted("interrupted", hint=hint)


def _what_goes_on(run: JobRun, title: str) -> str:
    """Return how many tasks continue on an engine, and the effect of the next Ctrl-C."""
    from tarmac.jobs import read_status

    status = read_status(run.path)
    running, queued = status.count("running"), status.count("queued")
    if not running and not queued:
        return f"{title} has no known task of the run yet. Ctrl-C again within 5 s cancels any."
    return (
        f"{counted(running, 'task runs', 'tasks run')} and {counted(queued, 'is', 'are')} queued "
        f"on {title}, and continue. Ctrl-C again within 5 s cancels them."
    )


def _detached(run: JobRun) -> Interrupted:
    word = quoted(run.path)
    hint = f"Resume it: tarmac run --resume {word}\nCancel it: tarmac cancel {word}"
    return Interrupted(f"detached from {run.path.name}", hint=hint)


def _print_resume_hint(run: JobRun) -> None:
    click.echo(f"Run the failed tasks again: tarmac run --resume {quoted(run.path)}", err=True)
