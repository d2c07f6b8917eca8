"""The page of a job or a pipeline: its tasks over time, its failures, and the use of its time."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup
from pydantic import ValidationError

from tarmac.jobs import (
    Job,
    JobRecord,
    Resources,
    TaskSpec,
    TaskStatus,
    Timeline,
    read_record,
    read_timeline,
    specs_of,
)
from tarmac.masking import masked_command, masked_text
from tarmac.pages.bars import Bar, stacked_bars
from tarmac.pages.components import Tile, chip, details, facts, message, pre, table, tiles
from tarmac.pages.job_failures import failed_groups, failures_body, retries_body
from tarmac.pages.job_lanes import STATES, device_lanes, folded, load_plot, task_lanes
from tarmac.pages.job_time import SpecTime, ready_times, spec_times
from tarmac.pages.numbers import moment, worded
from tarmac.pages.page import Page, Section
from tarmac.pages.redaction import without_secrets
from tarmac.pages.scales import Axis
from tarmac.wording import counted

_MAX_TASKS = 200
_MAX_BARS = 20
_LONGEST_TEXT = 20_000

# Styles of a run's state.
_RUN_STATES = STATES | {"detached": "busy"}


def job_page(run: Path, *, now: float | None = None) -> Page:
    """Return the page of a job's run.

    Args:
        run: Directory of the job's run, with ``job-run.json``.
        now: Current time in seconds since 1970. Default: this machine's clock.

    Raises:
        RequestError: The path is no job's run, or of a newer Tarmac.
        StorageError: The files of the run cannot be read.
        TarmacError: The record of the run is damaged.
    """
    run = run.resolve()
    record = read_record(run)
    timeline = read_timeline(run, now=now)
    status = timeline.status
    what = "pipeline" if record.num_tasks is None else "job"
    where = "this machine" if record.executor == "local" else record.executor
    return Page(
        title=run.name,
        subtitle=f"A {what} on {where}, made {moment(record.created_at)}",
        status=status.state,
        state=_RUN_STATES.get(status.state, "plain"),
        head=_tiles(timeline, shown_end(timeline)),
        sections=[*_sections(run, record, timeline)],
    )


def shown_end(timeline: Timeline) -> float:
    """Return the end of a run's plots, in seconds since 1970.

    The end of an active run moves in steps of about a hundredth of its length, so that its page
    stays the same for a while.
    """
    length = timeline.until - timeline.began_at
    if not timeline.status.is_active or length <= 0:
        return timeline.until
    step = 2.0 ** max(0, math.floor(math.log2(length / 64)))
    return timeline.began_at + math.ceil(length / step) * step


def _sections(run: Path, record: JobRecord, timeline: Timeline) -> Iterator[Section]:
    until = shown_end(timeline)
    job = _job_of(record)
    ready = {} if job is None else ready_times(timeline, job)
    groups = failed_groups(timeline)
    yield Section("outcome", "Result", _outcome(run, record, timeline))
    if groups:
        yield Section("failures", "What failed", failures_body(run, timeline, groups))
    if timeline.traces and timeline.has_times:
        own, folds = folded(timeline)
        body = Markup("")
        note = "A lane for each task, from the time when it could start."
        if folds:
            count = sum(len(fold.tasks) for fold in folds)
            body += load_plot("load", timeline, until)
            note = f"{len(own):,} tasks in lanes of their own, what failed first; {count:,} others "
            note += "folded: the curve is how many were at work."
        body += task_lanes("tasks-in-time", timeline, ready, until)
        yield Section("timeline", "Tasks in time", body, note)
        times = spec_times(timeline, ready, until)
        yield Section("time", "Where the time went", _time(times), _TIME_NOTE)
        if (devices := device_lanes("devices-in-time", timeline, until)) is not None:
            yield Section("devices", "GPUs and CPUs", devices)
    elif timeline.traces:
        words = "The journal of this run has no times: it was written by Tarmac 0.1."
        yield Section("timeline", "Tasks in time", message("plain", words))
    if (retries := retries_body(timeline)) is not None:
        yield Section("retries", "Tried again", retries)
    if request := _asked(job):
        yield Section("asked", "Request", request)
    if timeline.status.tasks:
        yield Section("tasks", "Tasks", *_task_table(timeline))
    yield Section("record", "The job as it was submitted", _record(record))


_TIME_NOTE = (
    "At work: from the start of an attempt to its end, inputs and outputs included. For room: "
    "it could have begun, and there was no room or it was in a queue."
)


def _job_of(record: JobRecord) -> Job | None:
    """Return the job, or None if its record is damaged or needs a missing plug-in."""
    try:
        return Job.model_validate(record.job)
    except ValidationError:
        return None


def _tiles(timeline: Timeline, until: float) -> Markup:
    status = timeline.status
    traces = timeline.traces.values()
    ended = sum(task.state in ("succeeded", "failed", "skipped") for task in status.tasks)
    failed = status.count("failed")
    attempts = sum(len(trace.attempts) for trace in traces)
    retried = sum(max(0, len(trace.attempts) - 1) for trace in traces)
    figures = [
        Tile("Tasks ended", f"{ended:,} of {status.num_tasks:,}"),
        Tile("Failed", f"{failed:,}", state="bad" if failed else "ok"),
        Tile("Tried again", f"{retried:,}", f"{counted(attempts, 'attempt')} in all"),
    ]
    if timeline.has_times and timeline.traces:
        wall = until - timeline.began_at
        work = sum(time.spent.work_s for time in spec_times(timeline, {}, until))
        at_once = f"{worded(round(work / wall, 2))} at once on average" if wall > 0 else ""
        figures += [
            Tile("From start to end", worded(wall, "s")),
            Tile("Work", worded(work, "s"), at_once),
        ]
    return tiles(figures)


def _outcome(run: Path, record: JobRecord, timeline: Timeline) -> Markup:
    status = timeline.status
    counts = ", ".join(
        f"{count:,} {state}"
        for state in ("succeeded", "failed", "skipped", "interrupted", "running", "queued")
        if (count := status.count(state))
    )
    left = status.num_tasks - len(status.tasks)
    words = "; ".join(filter(None, (counts, f"{left:,} not begun" if left else "")))
    again = status.state in ("failed", "interrupted")
    commands = [f"tarmac run --resume {shlex.quote(str(run))}"] if again else []
    body = message(
        _RUN_STATES.get(status.state, "plain"), words or "no task has begun", commands=commands
    )
    if status.reason:
        body += message("bad", masked_text(status.reason))
    if status.runner_note:
        body += message("plain", masked_text(status.runner_note))
    for problem in status.problems[:5]:
        body += message("warn", f"Left out: {problem}")
    return body + facts(
        [("Name", record.name), ("Directory", str(run)), ("Started from", record.base)]
    )


def _time(times: Sequence[SpecTime]) -> Markup:
    shown = sorted(times, key=lambda time: -time.spent.work_s)[:_MAX_BARS]
    names = {time.name for time in shown}
    bars = [
        Bar(time.name, [time.spent.work_s, time.spent.room_s, time.spent.between_s])
        for time in times
        if time.name in names
    ]
    parts = ["at work", "waited for room", "between attempts"]
    picture = stacked_bars(
        "time-by-task",
        "",
        bars,
        parts=parts,
        x=Axis("task"),
        y=Axis("sum over tasks", unit="s"),
        height=180,
    )
    rows = [
        [
            time.name,
            f"{time.count:,}",
            f"{time.attempts:,}",
            worded(time.spent.work_s, "s"),
            worded(time.longest_s, "s"),
            worded(time.others_s, "s"),
            worded(time.spent.room_s, "s"),
            worded(time.longest_room_s, "s"),
            worded(time.spent.between_s, "s"),
        ]
        for time in times[:_MAX_TASKS]
    ]
    columns = ["task", "begun", "attempts", "at work", "longest", "until it could begin"]
    columns += ["for room", "longest of it", "between attempts"]
    return picture + table(columns, rows, label="Time by task", numbers=range(1, 9))


def _asked(job: Job | None) -> Markup:
    if job is None:
        return message("warn", "Request cannot be read by this version.")
    if job.pipeline is not None:
        return _nodes(job.pipeline)
    rows = [_spec_row(job, spec) for spec in specs_of(job)]
    columns = ["task", "after", "runs", "in", "resources", "at most", "retries"]
    return table(columns, rows, label="Tasks as they were asked for")


def _spec_row(job: Job, spec: TaskSpec) -> list[str | Markup]:
    is_last = job.after_all is not None and spec.name == job.after_all.name
    runs = (
        spec.command
        if isinstance(spec.command, str)
        else shlex.join(masked_command(spec.command or ()))
    )
    if spec.workload is not None:
        settings = " ".join(
            f"{key}={value}" for key, value in without_secrets(dict(spec.settings)).items()
        )
        runs = f"workload {spec.workload} {settings}"
    return [
        spec.name + (" (for each of a sweep)" if spec.sweep is not None else ""),
        "all others" if is_last else ", ".join(spec.needs) or "-",
        _cut(masked_text(runs) or "what the image runs"),
        spec.environment.kind if hasattr(spec.environment, "kind") else "-",
        resources_text(spec.resources),
        worded(spec.timeout, "s") if spec.timeout is not None else "no limit",
        str(spec.retries.count),
    ]


def resources_text(needs: Resources) -> str:
    """Return a task's resources in words."""
    words = [f"{needs.cpus:g} CPU{'' if needs.cpus == 1 else 's'}"]
    words += [worded(needs.memory, "bytes")] if needs.memory is not None else []
    words += [f"{needs.gpus:g} GPU{'' if needs.gpus <= 1 else 's'}"] if needs.gpus else []
    words += [f"of {worded(needs.gpu_memory, 'bytes')}"] if needs.gpu_memory is not None else []
    words += [f"on {needs.nodes} nodes"] if needs.nodes > 1 else []
    return ", ".join(words)


def _nodes(pipeline: dict[str, Any]) -> Markup:
    nodes = pipeline.get("nodes")
    rows = [
        [
            str(node.get("nodeName", "-")),
            str(node.get("algorithmName") or node.get("pipelineName") or node.get("kind") or "-"),
            _cut(masked_text(json.dumps(node.get("input", [])))),
        ]
        for node in (nodes if isinstance(nodes, list) else ())
        if isinstance(node, dict)
    ]
    return table(["node", "algorithm", "input"], rows, label="Nodes of the pipeline")


def _task_table(timeline: Timeline) -> tuple[Markup, str]:
    own, folds = folded(timeline, _MAX_TASKS)
    tasks = [*own]
    for fold in folds:
        tasks += [*fold.tasks][: max(0, _MAX_TASKS - len(tasks))]
    rows = [_task_row(task, timeline) for task in tasks]
    count = len(timeline.status.tasks)
    note = f"{len(tasks):,} of {count:,}, what failed first." if len(tasks) < count else ""
    columns = ["task", "state", "attempts", "took", "where", "GPUs", "why"]
    return table(columns, rows, label="Tasks", numbers=(2, 3)), note


def _task_row(task: TaskStatus, timeline: Timeline) -> list[str | Markup]:
    trace = timeline.trace_of(task)
    last = trace.attempts[-1] if trace.attempts else None
    return [
        task.name,
        chip(task.state, STATES.get(task.state, "plain")),
        f"{len(trace.attempts):,}",
        worded(trace.seconds, "s"),
        task.host or ("-" if last is None else "here"),
        ", ".join(last.gpus) if last is not None and last.gpus else "-",
        _cut(masked_text(task.reason)) or "-",
    ]


def _record(record: JobRecord) -> Markup:
    text = json.dumps(without_secrets(record.job), indent=2, ensure_ascii=False)
    if len(text) > _LONGEST_TEXT:
        text = f"{text[:_LONGEST_TEXT]}\n... {len(text):,} characters in all"
    return details("record-text", "job-run.json", pre(text))


def _cut(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[:most]} ..."
