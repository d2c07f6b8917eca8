"""The page of one task of a job: its attempts with causes, its command, the ends of its logs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.jobs import Job, Task, TaskStatus, Timeline, find_run, read_timeline
from tarmac.masking import masked_command, masked_environment, masked_text
from tarmac.pages.components import Tile, chip, facts, message, pre, table, tiles
from tarmac.pages.job import resources_text, shown_end
from tarmac.pages.job_lanes import STATES, one_task_lanes
from tarmac.pages.job_time import ready_times, spec_of, spent
from tarmac.pages.log_end import known_failures, log_end
from tarmac.pages.numbers import UNKNOWN, worded
from tarmac.pages.page import Page, Section
from tarmac.pages.redaction import without_secrets

_NUMBER = re.compile(r"\d+(?=-)")
_LOG_LINES = 60


def is_task(directory: Path) -> bool:
    """Return whether a directory belongs to a task in a job's run."""
    return (
        directory.parent.name == "tasks"
        and _NUMBER.match(directory.name) is not None
        and (directory.parent.parent / "job-run.json").is_file()
    )


def task_page(directory: Path, *, now: float | None = None) -> Page:
    """Return the page of a task.

    Args:
        directory: Directory of the task, such as ``RUN/tasks/000003-train``.
        now: Current time in seconds since 1970. Default: this machine's clock.

    Raises:
        RequestError: The directory is no task's, or the task has not begun.
        TarmacError: The task's run cannot be read.
    """
    directory = directory.resolve()
    match = _NUMBER.match(directory.name)
    if match is None or not is_task(directory):
        raise RequestError(
            f"{directory} is not a task of a job's run",
            hint="List the tasks of a run: ls RUN/tasks",
        )
    run = directory.parent.parent
    timeline = read_timeline(run, now=now)
    status = next((task for task in timeline.status.tasks if task.index == int(match[0])), None)
    if status is None:
        raise RequestError(
            f"task {directory.name} of {run.name} has not begun",
            hint=f"See the run's status: tarmac report {quoted(run)}",
        )
    return Page(
        title=status.name,
        subtitle=f"Task {status.index} of {run.name}",
        status=status.state,
        state=STATES.get(status.state, "plain"),
        head=_tiles(status, timeline),
        sections=[*_sections(run, status, timeline)],
    )


def _tiles(status: TaskStatus, timeline: Timeline) -> Markup:
    trace = timeline.trace_of(status)
    times = spent(trace.attempts, None, until=shown_end(timeline))
    code = UNKNOWN if status.exit_code is None else str(status.exit_code)
    return tiles(
        [
            Tile("Attempts", f"{len(trace.attempts)}"),
            Tile("Last one took", worded(trace.seconds, "s"), "without inputs and outputs"),
            Tile("At work in all", worded(times.work_s if timeline.has_times else None, "s")),
            Tile("Exit code", code, state="bad" if status.state == "failed" else "plain"),
        ]
    )


def _sections(run: Path, status: TaskStatus, timeline: Timeline) -> Iterator[Section]:
    if status.reason:
        state = STATES.get(status.state, "plain")
        body = message(state, masked_text(status.reason)) + known_failures(
            "failure", status.directory, run
        )
        yield Section("why", "Why", body)
    job, task, problem = _planned(run, status)
    ready = {} if job is None else ready_times(timeline, job)
    if timeline.trace_of(status).attempts:
        body = Markup("")
        if timeline.has_times:
            body = one_task_lanes(
                "attempts-in-time",
                status,
                timeline,
                ready.get(spec_of(status.name)),
                shown_end(timeline),
            )
        yield Section("attempts", "Attempts", body + _attempts(status, timeline))
    log = log_end(status.directory, _LOG_LINES, run)
    if status.is_shared:
        log = message("plain", "This is what its algorithm's instance printed last.") + log
    yield Section("log", "What it printed last", log or message("plain", "Nothing."))
    yield Section("asked", "Request", _asked(task, problem))
    yield Section("place", "Where it is", facts([("Directory", str(status.directory))]))


def _planned(run: Path, status: TaskStatus) -> tuple[Job | None, Task | None, str]:
    """Return the job and its task, and the reason if one is unknown."""
    try:
        job_run = find_run(str(run))
    except TarmacError as error:
        return None, None, error.message
    if job_run.job.pipeline is not None:
        return job_run.job, None, "A pipeline's tasks are made as it runs."
    if status.index >= len(job_run.tasks):
        return job_run.job, None, f"The job has no task {status.index}."
    return job_run.job, job_run.tasks[status.index], ""


def _attempts(status: TaskStatus, timeline: Timeline) -> Markup:
    origin = timeline.began_at
    rows = []
    for attempt in timeline.trace_of(status).attempts:
        is_whole = attempt.began_at is not None and attempt.ended_at is not None
        took = (attempt.ended_at or 0.0) - (attempt.began_at or 0.0) if is_whole else None
        began = None if attempt.began_at is None else attempt.began_at - origin
        rows.append(
            [
                str(attempt.number),
                chip(attempt.outcome, STATES.get(attempt.outcome, "plain")),
                worded(began, "s"),
                worded(took, "s"),
                attempt.cause or UNKNOWN,
                masked_text(attempt.reason) or UNKNOWN,
                attempt.host or "here",
                f"{attempt.cpus:g}" if attempt.cpus is not None else UNKNOWN,
                ", ".join(attempt.gpus) or UNKNOWN,
                attempt.place or UNKNOWN,
            ]
        )
    columns = ["attempt", "ended", "began at", "took", "cause", "reason", "where", "CPUs", "GPUs"]
    return table([*columns, "engine's name"], rows, label="Attempts", numbers=(2, 3, 7))


def _asked(task: Task | None, problem: str) -> Markup:
    if task is None:
        return message("plain", problem)
    environment = task.environment.model_dump(mode="json", exclude_defaults=True)
    pairs: list[tuple[str, object]] = [
        ("After", list(task.needs)),
        ("Parameters", [f"{k}={v}" for k, v in without_secrets(dict(task.parameters)).items()]),
        ("Resources", resources_text(task.resources)),
        ("Time limit", worded(task.timeout_s, "s") if task.timeout_s is not None else "none"),
        ("Retries", task.retries.count),
        ("Priority", task.priority),
        (
            "Environment",
            [f"{name}: {masked_text(str(value))}" for name, value in environment.items()],
        ),
        ("Variables", [f"{k}={v}" for k, v in masked_environment(dict(task.env)).items()]),
        ("Secrets", [*task.secrets]),
        ("Inputs", [masked_text(file.source) for file in task.inputs]),
        ("Outputs", [masked_text(f"{file.path} to {file.to}") for file in task.outputs]),
    ]
    command = shlex.join(masked_command(task.command)) or "(what the image runs)"
    return pre(command) + facts(pairs)
